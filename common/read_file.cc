#include "common/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/file_error.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

absl::Status ReadError(absl::string_view what, const std::string& path) {
  return FileError(errno, what.empty() ? "read" : absl::StrCat("read ", what),
                   path);
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
    const ssize_t got =
        read(fd, bytes->data() + length, bytes->size() - length);
    if (got < 0 && errno == EINTR) continue;
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
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ReadError(what, path);
  std::string bytes;
  MR_RETURN_IF_ERROR(ReadToEnd(fd, path, limit, what, &bytes));
  return bytes;
}

}  // namespace millrace
