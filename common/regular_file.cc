#include "common/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/file_error.h"
#include "common/read_file.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

absl::Status NoRegularFile(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   " is not a regular file but a folder, a FIFO, a socket or a "
                   "device: name a file"));
}

}  // namespace

absl::StatusOr<int> OpenRegularFile(const std::string& path) {
  // Without O_NONBLOCK the open() of a FIFO waits for a writer. The flag
  // changes nothing for regular files.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  // ENXIO: a socket, or a device without a driver.
  if (fd < 0 && errno == ENXIO) return NoRegularFile(path);
  if (fd < 0) return FileError(errno, "open", path);
  struct stat info;
  const int error = fstat(fd, &info) == 0 ? 0 : errno;
  if (error == 0 && S_ISREG(info.st_mode)) return fd;
  close(fd);
  return error == 0 ? NoRegularFile(path) : FileError(error, "open", path);
}

absl::Status ReadRegularFile(const std::string& path, std::string* bytes) {
  MR_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path));
  return ReadToEnd(fd, path, kNoFileLimit, "", bytes);
}

absl::StatusOr<std::string> ReadRegularFileStart(const std::string& path,
                                                 size_t length) {
  MR_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path));
  std::string start(length, 0);
  const ssize_t got = pread(fd, start.data(), start.size(), 0);
  const int error = errno;
  close(fd);
  if (got < 0) return FileError(error, "read", path);
  start.resize(got);
  return start;
}

}  // namespace millrace
