#include "server/data_tool/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "server/storage/file_error.h"

namespace millrace {

absl::Status ReadWholeFile(const std::string& path, std::string* bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError(errno, "open", path);
  struct stat info;
  int error = fstat(fd, &info) == 0 ? 0 : errno;
  // One byte more shows the end without another call.
  bytes->resize(error == 0 ? info.st_size + 1 : 0);
  size_t length = 0;
  while (error == 0) {
    if (length == bytes->size()) bytes->resize(2 * length);
    const ssize_t got =
        read(fd, bytes->data() + length, bytes->size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = errno;
    if (got <= 0) break;
    length += got;
  }
  close(fd);
  bytes->resize(length);
  return error == 0 ? absl::OkStatus() : FileError(error, "read", path);
}

}  // namespace millrace
