#include "common/new_file.h"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "common/file_error.h"

namespace millrace {
namespace {

// 0, or the errno of the write that failed.
int WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

}  // namespace

absl::Status WriteNewFile(const std::string& path,
                          absl::Span<const absl::string_view> parts) {
  // O_EXCL refuses every name that exists, so open() cannot wait for a FIFO.
  const int fd = open(
      path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) return FileError(errno, "create the file", path);
  int error = 0;
  for (const absl::string_view part : parts) {
    if (error == 0) error = WriteAll(fd, part);
  }
  // Some file systems report a failed write only here.
  if (close(fd) != 0 && error == 0 && errno != EINTR) error = errno;
  if (error == 0) return absl::OkStatus();
  unlink(path.c_str());
  return FileError(error, "write", path);
}

}  // namespace millrace
