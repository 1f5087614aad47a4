#include "common/file_error.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace millrace {
namespace {

// A disk with less free space than this counts as full.
constexpr uint64_t kFullBytes = 1 << 20;

uint64_t FreeBytes(absl::string_view path) {
  struct statvfs fs;
  if (statvfs(FolderOf(path).c_str(), &fs) != 0) return UINT64_MAX;
  return static_cast<uint64_t>(fs.f_bavail) * fs.f_frsize;
}

// Whether the action makes a file or a folder.
bool Makes(absl::string_view action) {
  return absl::StartsWith(action, "write") ||
         absl::StartsWith(action, "create") || absl::StartsWith(action, "make");
}

absl::string_view Advice(int error, absl::string_view action) {
  switch (error) {
    case ENOENT:
      return Makes(action) ? "; create the folder, or check the path"
                           : "; check the path";
    case ENOTDIR:
      return "; check the path: a part of it is a file and no folder";
    case EISDIR:
      return "; name a file, not a folder";
    case ENAMETOOLONG:
      return "; choose a shorter name";
    case ENOSPC:
    case EDQUOT:
      return "; make room or write to another disk";
    case EFBIG:
      return "; the file system or `ulimit -f` allows no larger file";
    case EACCES:
    case EPERM:
      return "; check the permissions of the file and of the folders above it";
    case EROFS:
      return "; the file system is read-only: write to another one";
    case EMFILE:
    case ENFILE:
      return "; too many files are open: raise `ulimit -n`";
    default:
      return "";
  }
}

}  // namespace

absl::Status FileError(int error, absl::string_view action,
                       absl::string_view path) {
  const std::string text =
      absl::StrCat("cannot ", action, " ", path, ": ", std::strerror(error),
                   Advice(error, action));
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return absl::ResourceExhaustedError(text);
  }
  return absl::Status(absl::ErrnoToStatusCode(error), text);
}

int WriteErrno(int error, absl::string_view path) {
  return error == EIO && FreeBytes(path) < kFullBytes ? ENOSPC : error;
}

std::string FileName(absl::string_view path) {
  while (path.size() > 1 && absl::ConsumeSuffix(&path, "/")) {
  }
  const size_t slash = path.rfind('/');
  return std::string(slash == path.npos ? path : path.substr(slash + 1));
}

std::string FolderOf(absl::string_view path) {
  while (path.size() > 1 && absl::ConsumeSuffix(&path, "/")) {
  }
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return ".";
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

absl::Status SyncToDisk(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError(errno, "open", path);
  const int error = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  // Some file systems do not sync folders; their names are then durable
  // already, or never.
  if (error != 0 && error != EINVAL) {
    return FileError(error, "write to disk", path);
  }
  return absl::OkStatus();
}

}  // namespace millrace
