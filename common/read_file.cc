#include "common/read_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/file_error.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "common/stop_signals.h"

namespace millrace {
namespace {

absl::Status ReadError(absl::string_view what, const std::string& path) {
  return FileError(errno, what.empty() ? "read" : absl::StrCat("read ", what),
                   path);
}

// Time between two looks for a signal, and how often a pipe is silent for that
// time before a line names it.
constexpr int kLookMs = 100;
constexpr int kSilentLooks = 10;

// Blocks until `fd`, of a pipe or a terminal, has bytes or has ended. A program
// that has not opened the pipe yet is waited for as well. Cancelled: a signal
// asks the program to stop.
absl::Status AwaitBytes(int fd, const std::string& path) {
  pollfd waited = {fd, POLLIN, 0};
  for (int looks = 1; poll(&waited, 1, kLookMs) <= 0; ++looks) {
    if (StopSignals::signal() != 0) {
      return absl::CancelledError(
          absl::StrCat("stopped by signal ", StopSignals::signal(),
                       " while waiting for bytes of ", path));
    }
    if (looks == kSilentLooks) {
      MR_LOG(WARNING) << "waiting for bytes of " << path
                      << ": no program writes to this pipe or terminal";
    }
  }
  return absl::OkStatus();
}

// Up to one byte more than `limit`.
absl::Status Read(int fd, const std::string& path, uint64_t limit,
                  absl::string_view what, std::string* bytes) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ReadError(what, path);
  const uint64_t expected = info.st_size > 0 ? info.st_size : 0;
  // One byte more shows the end of the file, or that it is too large, without
  // another call.
  bytes->resize(std::min(expected, limit) + 1);
  size_t length = 0;
  while (length <= limit) {
    if (length == bytes->size()) bytes->resize(2 * length);
    if (!S_ISREG(info.st_mode)) MR_RETURN_IF_ERROR(AwaitBytes(fd, path));
    const ssize_t got =
        read(fd, bytes->data() + length, bytes->size() - length);
    // EAGAIN: another reader of the pipe was faster.
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return ReadError(what, path);
    if (got == 0) break;
    length += got;
  }
  bytes->resize(length);
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadToEnd(int fd, const std::string& path, uint64_t limit,
                       absl::string_view what, std::string* bytes) {
  absl::Status status = Read(fd, path, limit, what, bytes);
  close(fd);
  if (!status.ok()) bytes->clear();
  if (!status.ok() || bytes->size() <= limit) return status;
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is larger than ", limit,
                   " bytes; check that it is the right file"));
}

absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit,
                                     absl::string_view what) {
  // Without O_NONBLOCK the open() of a pipe waits for a writer, without a word
  // and without an end.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return ReadError(what, path);
  std::string bytes;
  MR_RETURN_IF_ERROR(ReadToEnd(fd, path, limit, what, &bytes));
  return bytes;
}

}  // namespace millrace
