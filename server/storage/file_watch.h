// FileWatch checks that an open file has not changed since the watch began, so
// that the bytes read meanwhile may be used.
//
// It does not prevent changes, and a file that has changed stays failed. A file
// that is replaced (by rename) or deleted has not changed: its descriptor keeps
// the old file.
//
// Thread-safe. Does not own the descriptor, which outlives it.
//
//   MR_ASSIGN_OR_RETURN(auto watch, FileWatch::Begin(path, fd));
//   Read(fd);
//   MR_RETURN_IF_ERROR(watch->CheckUnchanged());  // it may be used

#ifndef MILLRACE_SERVER_STORAGE_FILE_WATCH_H_
#define MILLRACE_SERVER_STORAGE_FILE_WATCH_H_

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/mutex.h"

namespace millrace::storage {

class FileWatch {
 public:
  // `path` names the file in errors.
  static absl::StatusOr<std::unique_ptr<const FileWatch>> Begin(
      std::string path, int fd);

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }  // when the watch began

  // Unavailable: the file has changed since, or could not be read at byte
  // `lost`; names file and cause, which are logged once. Stays so. Costs one
  // fstat().
  //
  // Size and time of modification show a change. If only the time of the last
  // attribute change differs (chmod, rename, a new link), the first and last 64
  // KiB are compared with their state at the beginning, because a program may
  // have set the time of modification back.
  absl::Status CheckUnchanged(
      std::optional<uint64_t> lost = std::nullopt) const;

  // Reads bytes from `offset` on by a system call; fewer at the end of the
  // file.
  absl::StatusOr<uint64_t> Read(uint64_t offset,
                                absl::Span<uint8_t> buffer) const;

 private:
  FileWatch(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  // A hash of both ends of the file.
  absl::StatusOr<uint64_t> HashEnds() const;
  absl::Status CheckAgain(std::optional<uint64_t> lost) const;
  // Why the file is not what it was; empty: it is. `now`: null when the system
  // did not tell, for `error`.
  std::string FindFault(std::optional<uint64_t> lost, const struct stat* now,
                        int error) const MR_REQUIRES(mu_);

  // Constant once begun.
  const std::string path_;
  const int fd_;
  uint64_t bytes_ = 0;
  int64_t modified_nanos_ = 0;
  uint64_t ends_hash_ = 0;

  // Of the last look that found nothing.
  mutable std::atomic<int64_t> changed_nanos_{0};
  mutable std::atomic<bool> failed_{false};
  mutable Mutex mu_;
  mutable std::string fault_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_FILE_WATCH_H_
