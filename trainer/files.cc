#include "trainer/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

absl::Status Failed(absl::string_view what, const std::string& path) {
  const int error = errno;
  const std::string text =
      absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(text)
                         : absl::FailedPreconditionError(text);
}

std::string Beside(const std::string& path) {
  return absl::StrCat(path, ".tmp.", getpid());
}

absl::Status WriteAll(int fd, absl::string_view contents,
                      const std::string& path) {
  while (!contents.empty()) {
    const ssize_t n = write(fd, contents.data(), contents.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed("write", path);
    contents.remove_prefix(static_cast<size_t>(n));
  }
  if (fsync(fd) != 0) return Failed("write", path);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckWritable(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write ", path, ": it is a folder; name a file"));
  }
  const std::string probe = Beside(path);
  const int fd = open(probe.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return Failed("write", path);
  close(fd);
  unlink(probe.c_str());
  return absl::OkStatus();
}

absl::Status CheckReadable(const std::string& path) {
  return access(path.c_str(), R_OK) == 0 ? absl::OkStatus()
                                         : Failed("read", path);
}

absl::Status MakeFolders(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    struct stat info;
    if (mkdir(part.c_str(), 0777) != 0 &&
        (errno != EEXIST || stat(part.c_str(), &info) != 0)) {
      return Failed("make the folder", part);
    }
    if (slash == std::string::npos) break;
  }
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("cannot make the folder ", path, ": a file is there"));
}

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::string_view contents) {
  const std::string fresh = Beside(path);
  const int fd =
      open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Failed("write", path);
  absl::Status status = WriteAll(fd, contents, path);
  close(fd);
  if (status.ok() && rename(fresh.c_str(), path.c_str()) != 0) {
    status = Failed("write", path);
  }
  if (!status.ok()) unlink(fresh.c_str());
  return status;
}

absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t limit) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Failed("read", path);
  std::string contents;
  absl::Status status;
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) status = Failed("read", path);
    if (n <= 0) break;
    contents.append(buffer, static_cast<size_t>(n));
    if (contents.size() > limit) {
      status = absl::InvalidArgumentError(absl::StrCat(
          path, " is larger than ", limit, " bytes: is it the right file?"));
      break;
    }
  }
  close(fd);
  if (!status.ok()) return status;
  return contents;
}

}  // namespace millrace
