// MappedFile is a whole file mapped for reading that may be changed by others
// meanwhile: the process survives (common/map_guard.h), and CheckUnchanged()
// says whether what was read is what the file held when it was opened
// (server/storage/file_watch.h).
//
// Thread-safe. Owns map and descriptor; spans of data() must not outlive it.
//
//   MR_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
//   Copy(file->data());
//   MR_RETURN_IF_ERROR(file->CheckUnchanged());  // the copy may be used

#ifndef MILLRACE_SERVER_STORAGE_MAPPED_FILE_H_
#define MILLRACE_SERVER_STORAGE_MAPPED_FILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/map_guard.h"
#include "common/unique_fd.h"
#include "server/storage/file_watch.h"

namespace millrace::storage {

class MappedFile {
 public:
  // Errors name the file. An empty file has an empty map.
  static absl::StatusOr<std::unique_ptr<const MappedFile>> Open(
      const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return watch_->path(); }
  // Bytes may change while they are looked at, and become zeros.
  absl::Span<const uint8_t> data() const {
    return {data_, data_ == nullptr ? 0 : watch_->bytes()};
  }

  // As FileWatch::Read(): for bytes that are looked at more than once.
  absl::StatusOr<uint64_t> Read(uint64_t offset,
                                absl::Span<uint8_t> buffer) const {
    return watch_->Read(offset, buffer);
  }

  // As FileWatch::CheckUnchanged(), also for pages that were lost meanwhile.
  absl::Status CheckUnchanged() const {
    return watch_->CheckUnchanged(guard_ ? guard_->lost() : std::nullopt);
  }

 private:
  explicit MappedFile(UniqueFd file) : file_(std::move(file)) {}

  // Constant once open.
  const UniqueFd file_;
  std::unique_ptr<const FileWatch> watch_;
  const uint8_t* data_ = nullptr;
  std::optional<MapGuard> guard_;  // absent: nothing is mapped
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_MAPPED_FILE_H_
