#include "common/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/file_error.h"
#include "common/read_file.h"
#include "common/status_macros.h"
#include "common/unique_fd.h"

namespace millrace {
namespace {

absl::Status NoRegularFile(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path,
                   " is not a regular file but a folder, a FIFO, a socket or a "
                   "device: name a file"));
}

// `length` bytes from `from(size of the file)` on.
template <typename From>
absl::StatusOr<std::string> ReadPart(const std::string& path, size_t length,
                                     const From& from) {
  MR_ASSIGN_OR_RETURN(const int opened, OpenRegularFile(path));
  const UniqueFd fd(opened);
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) return FileError(errno, "read", path);
  std::string part(length, 0);
  const ssize_t got =
      pread(fd.get(), part.data(), part.size(), from(info.st_size));
  if (got < 0) return FileError(errno, "read", path);
  part.resize(static_cast<size_t>(got));
  return part;
}

}  // namespace

bool IsEmptyFile(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         info.st_size == 0;
}

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
  return ReadPart(path, length, [](off_t) -> off_t { return 0; });
}

absl::StatusOr<std::string> ReadRegularFileEnd(const std::string& path,
                                               size_t length) {
  return ReadPart(path, length, [length](off_t size) {
    return std::max<off_t>(0, size - static_cast<off_t>(length));
  });
}

}  // namespace millrace
