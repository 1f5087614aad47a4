#include "server/storage/file_watch.h"

#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/file_error.h"
#include "common/logging.h"
#include "common/status_macros.h"

namespace millrace::storage {
namespace {

constexpr uint64_t kEndBytes = 64 << 10;

int64_t Nanos(const struct timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const FileWatch>> FileWatch::Begin(
    std::string path, int fd) {
  std::unique_ptr<FileWatch> watch(new FileWatch(std::move(path), fd));
  struct stat info;
  if (fstat(fd, &info) != 0) return FileError(errno, "open", watch->path_);
  watch->bytes_ = static_cast<uint64_t>(info.st_size);
  watch->modified_nanos_ = Nanos(info.st_mtim);
  watch->changed_nanos_ = Nanos(info.st_ctim);
  MR_ASSIGN_OR_RETURN(watch->ends_hash_, watch->HashEnds());
  return watch;
}

absl::StatusOr<uint64_t> FileWatch::Read(uint64_t offset,
                                         absl::Span<uint8_t> buffer) const {
  uint64_t length = 0;
  while (length < buffer.size()) {
    const ssize_t got =
        pread(fd_, buffer.data() + length, buffer.size() - length,
              static_cast<off_t>(offset + length));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, "read", path_);
    if (got == 0) break;
    length += static_cast<uint64_t>(got);
  }
  return length;
}

absl::StatusOr<uint64_t> FileWatch::HashEnds() const {
  std::vector<uint8_t> ends(2 * kEndBytes);
  const absl::Span<uint8_t> all = absl::MakeSpan(ends);
  MR_ASSIGN_OR_RETURN(const uint64_t first, Read(0, all.first(kEndBytes)));
  const uint64_t last_at = bytes_ - std::min(bytes_, kEndBytes);
  MR_ASSIGN_OR_RETURN(const uint64_t last,
                      Read(last_at, all.subspan(first, kEndBytes)));
  return XXH3_64bits(ends.data(), first + last);
}

absl::Status FileWatch::CheckUnchanged(std::optional<uint64_t> lost) const {
  struct stat now;
  if (!failed_.load(std::memory_order_acquire) && !lost.has_value() &&
      fstat(fd_, &now) == 0 && static_cast<uint64_t>(now.st_size) == bytes_ &&
      Nanos(now.st_mtim) == modified_nanos_ &&
      Nanos(now.st_ctim) == changed_nanos_.load(std::memory_order_relaxed)) {
    return absl::OkStatus();
  }
  return CheckAgain(lost);
}

absl::Status FileWatch::CheckAgain(std::optional<uint64_t> lost) const {
  MutexLock lock(mu_);
  if (!failed_.load(std::memory_order_relaxed)) {
    struct stat now;
    const bool known = fstat(fd_, &now) == 0;
    const std::string fault = FindFault(lost, known ? &now : nullptr, errno);
    if (fault.empty()) {
      // A change after this fstat() is found by the next check.
      changed_nanos_.store(Nanos(now.st_ctim), std::memory_order_relaxed);
      return absl::OkStatus();
    }
    // Servers send this sentence to their clients, so it names the program to
    // restart.
    fault_ = absl::StrCat(
        path_, " ", fault,
        ": the server stopped reading the file. Replace it (write a "
        "new file and rename it) and restart the data server, or the "
        "millrace-data command, that reads it");
    failed_.store(true, std::memory_order_release);
    MR_LOG(ERROR) << fault_;
  }
  return absl::UnavailableError(fault_);
}

std::string FileWatch::FindFault(std::optional<uint64_t> lost,
                                 const struct stat* now, int error) const {
  if (now == nullptr) {
    return absl::StrCat("cannot be reached (", std::strerror(error), ")");
  }
  const auto bytes = static_cast<uint64_t>(now->st_size);
  if (bytes != bytes_) {
    return absl::StrCat(bytes < bytes_ ? "was truncated" : "grew", " from ",
                        bytes_, " to ", bytes, " bytes while it was in use");
  }
  if (Nanos(now->st_mtim) != modified_nanos_) {
    return "was overwritten while it was in use";
  }
  if (lost.has_value()) {
    return absl::StrCat("could not be read at byte ", *lost,
                        ": its disk or network failed");
  }
  if (Nanos(now->st_ctim) == changed_nanos_.load(std::memory_order_relaxed)) {
    return "";
  }
  const absl::StatusOr<uint64_t> hash = HashEnds();
  if (!hash.ok()) {
    return absl::StrCat("could not be read (", hash.status().message(), ")");
  }
  if (*hash != ends_hash_) {
    return "was overwritten while it was in use, and its time of modification "
           "was set back";
  }
  MR_LOG(INFO) << path_
               << ": attributes, name or links have changed; size, time of "
                  "modification and both ends of the file are the same";
  return "";
}

}  // namespace millrace::storage
