#include "common/write_bytes.h"

#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/file_error.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/stop_signals.h"

namespace millrace {
namespace {

// Time between two looks for a signal.
constexpr int kLookMs = 100;
// Time that a reader has after a signal to take bytes. A choice: long for a
// reader that works, short for a program that is to end.
constexpr absl::Duration kPatience = absl::Seconds(2);

// A file or a block device never waits for a reader.
bool HasReader(int fd) {
  struct stat info;
  return fstat(fd, &info) != 0 ||
         (!S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode));
}

// Blocks until `fd` takes bytes, or until write() reports an error. Cancelled:
// a signal asks the program to stop, and the reader takes nothing.
absl::Status AwaitReader(int fd, const std::string& path) {
  std::optional<SteadyTime> give_up;
  while (true) {
    pollfd waited = {fd, POLLOUT, 0};
    const int ready = poll(&waited, 1, kLookMs);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return absl::OkStatus();
    if (StopSignals::signal() == 0) continue;
    if (!give_up.has_value()) give_up = SteadyDeadline(kPatience);
    if (SteadyTime::clock::now() < *give_up) continue;
    return absl::CancelledError(
        absl::StrCat("cannot write ", path, ": its reader took nothing for ",
                     absl::FormatDuration(kPatience), " after signal ",
                     StopSignals::signal(), "; the rest is not written"));
  }
}

}  // namespace

absl::Status WriteBytes(int fd, const std::string& path,
                        absl::string_view* bytes) {
  const bool has_reader = HasReader(fd);
  while (!bytes->empty()) {
    size_t size = bytes->size();
    if (has_reader) {
      MR_RETURN_IF_ERROR(AwaitReader(fd, path));
      // A pipe that poll() reports as writable has room for this many bytes;
      // the write of more would wait for the reader.
      size = std::min<size_t>(size, PIPE_BUF);
    }
    const ssize_t n = write(fd, bytes->data(), size);
    // EAGAIN: the descriptor does not block, and another writer was faster.
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return FileError(errno, "write", path);
    bytes->remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace millrace
