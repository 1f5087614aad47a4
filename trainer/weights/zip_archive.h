// ZIP archives whose entries are stored and not compressed, as torch.save and
// torch.jit.save write them, with a CRC-32 for each entry. Compressed entries
// are listed, but not unpacked. See PKWARE's APPNOTE.
//
// Why not libtorch's PyTorchStreamReader, which has the same task (2.11,
// caffe2/serialize/inline_container.h; its symbols are exported):
// - It ignores the CRC-32 of an entry: it returned an entry with a flipped bit
//   without an error, and a run continued from such a checkpoint at a loss of
//   4e35. Checkpoints, weights and TorchScript files are therefore checked here
//   before libtorch reads them.
// - It allocates the size that a compressed entry claims: an archive of 2 kB
//   made it return 2 GiB. It does not free the directory of an archive that it
//   refuses.
// - It throws, names no entry, and would bring libtorch into the parsers of
//   foreign bytes, which run under sanitizers and a fuzzer without it.
// PyTorchStreamWriter alone would save a third of this file and bring the same
// dependency.
//
// Pure functions over bytes. Nothing in the archive is trusted.
//
//   MR_ASSIGN_OR_RETURN(auto entries, ParseZip(file));
//   WriteZip({{"archive/version", "3\n"}}, sink);

#ifndef MILLRACE_TRAINER_WEIGHTS_ZIP_ARCHIVE_H_
#define MILLRACE_TRAINER_WEIGHTS_ZIP_ARCHIVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/weights/byte_sink.h"

namespace millrace::weights {

struct ZipEntry {
  std::string name;
  absl::string_view data;  // its bytes in the archive
  bool compressed =
      false;  // `data` is compressed, and its CRC was not compared
};

// In the order of the archive's directory; data are views of `file`. DataLoss:
// truncated or no archive, or an entry that is encrypted, named twice, damaged
// or overlaps another one; the message names the entry.
absl::StatusOr<std::vector<ZipEntry>> ParseZip(absl::string_view file);

// Writes the 64-bit form (ZIP64), whatever the sizes, so that one form is
// written and tested. Each entry's data begin at a multiple of 64 bytes, so
// that a mapped file can be used in place.
void WriteZip(const std::vector<ZipEntry>& entries, const ByteSink& sink);
// The same into a string, for small archives.
std::string ToZip(const std::vector<ZipEntry>& entries);

// CRC-32 of ISO 3309, the one of ZIP.
uint32_t Crc32(absl::string_view bytes);

}  // namespace millrace::weights

#endif  // MILLRACE_TRAINER_WEIGHTS_ZIP_ARCHIVE_H_
