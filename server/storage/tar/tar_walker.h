// TarWalker goes through the members of a tar archive by their headers: ustar,
// GNU long names, pax paths and sizes, sizes in base 256. Header checksums are
// verified, and no size is used before it is compared with the archive's.
//
// It reads no member and knows no samples.
//
// One thread. Does not own the window.
//
//   TarWalker walker(window, TarWalker::End::kMarked);
//   for (;;) {
//     MR_ASSIGN_OR_RETURN(const bool more, walker.Next());
//     if (!more) break;
//     Use(walker.name(), walker.data_offset(), walker.data_bytes());
//   }

#ifndef MILLRACE_SERVER_STORAGE_TAR_TAR_WALKER_H_
#define MILLRACE_SERVER_STORAGE_TAR_TAR_WALKER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/storage/extents/object_window.h"

namespace millrace::storage {

class TarWalker {
 public:
  static constexpr uint64_t kBlockBytes = 512;
  // Max bytes of a long name or of a pax header.
  static constexpr uint64_t kMaxExtensionBytes = 1 << 20;

  enum class End {
    kMarked,  // a whole archive: its end is marked by zeros
    kOpen,    // a part of an archive
  };

  TarWalker(ObjectWindow& window, End end) : window_(window), end_(end) {}

  // Goes to the next member that is a regular file. False: there is none.
  // Folders, devices and volume labels are skipped. DataLoss: the archive is
  // damaged or cut off. Unimplemented: a link, a sparse member, or a member
  // that continues in another archive. Messages begin with "byte N" and name
  // the member.
  absl::StatusOr<bool> Next();

  // Of the member. Its path is folder() + name(); folder() is empty or ends in
  // a slash. Valid until the window is used again.
  absl::string_view folder() const { return folder_; }
  absl::string_view name() const { return name_; }
  // Where its first header begins, and its data.
  uint64_t header_offset() const { return header_offset_; }
  uint64_t data_offset() const { return data_offset_; }
  uint64_t data_bytes() const { return data_bytes_; }

 private:
  // What headers before a member say of it.
  struct Extensions {
    bool has_path = false;  // in path_
    std::optional<uint64_t> bytes;
    bool any = false;
  };

  absl::Status Damaged(uint64_t offset, absl::string_view why) const;
  absl::Status ReadLongName(uint64_t bytes, Extensions* extensions);
  absl::Status ReadPax(uint64_t bytes, bool global, Extensions* extensions);
  absl::Status CheckEnd(uint64_t offset);
  // Sets folder_ and name_ from a whole path, or from a header.
  void SetPath(absl::string_view path);
  void SetPath(absl::Span<const uint8_t> header);

  ObjectWindow& window_;
  const End end_;
  uint64_t at_ = 0;  // of the next header
  uint64_t header_offset_ = 0;
  uint64_t data_offset_ = 0;
  uint64_t data_bytes_ = 0;
  std::string path_;    // of a long name
  std::string joined_;  // prefix of a header that needs a slash
  absl::string_view folder_;
  absl::string_view name_;
};

// "0001" and "seg.png" of 0001.seg.png: the key and the extension of a
// member's name. False: it has none, or is no part of a sample (hidden files,
// __names__).
bool SplitMemberName(absl::string_view name, absl::string_view* key,
                     absl::string_view* extension);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_TAR_TAR_WALKER_H_
