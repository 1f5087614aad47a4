// ZIP archives whose members are stored as they are, which is what torch.save
// writes: no compression, sizes of any length (ZIP64), a CRC-32 of each member.
// Members that are compressed are named, no more. See PKWARE's APPNOTE.
//
// Pure functions over bytes. Nothing of the archive is trusted.
//
//   MR_ASSIGN_OR_RETURN(auto members, ParseZip(file));
//   WriteZip({{"archive/version", "3\n"}}, sink);

#ifndef MILLRACE_TRAINER_WEIGHTS_ZIP_ARCHIVE_H_
#define MILLRACE_TRAINER_WEIGHTS_ZIP_ARCHIVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/weights/byte_sink.h"

namespace millrace {

struct ZipMember {
  std::string name;
  absl::string_view data;   // as it lies in the archive
  bool compressed = false;  // `data` is of no use then, and was not checked
};

// In the order of the archive's directory; data are views of `file`. DataLoss:
// no whole archive, or one with members that are encrypted, named twice or
// damaged.
absl::StatusOr<std::vector<ZipMember>> ParseZip(absl::string_view file);

// Each member's data begin at a multiple of 64 bytes, so that a file that is
// mapped into memory can be used where it lies.
void WriteZip(const std::vector<ZipMember>& members, const ByteSink& sink);
// The same as a string, for small ones.
std::string ToZip(const std::vector<ZipMember>& members);

// Of ISO 3309, as ZIP uses it.
uint32_t Crc32(absl::string_view bytes);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_WEIGHTS_ZIP_ARCHIVE_H_
