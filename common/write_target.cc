#include "common/write_target.h"

#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/file_error.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

// As the kernel's own limit.
constexpr int kMaxLinks = 40;

}  // namespace

bool IsSpecialFile(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) &&
         !S_ISDIR(info.st_mode);
}

absl::StatusOr<std::string> FollowLinks(const std::string& path) {
  std::string target = path;
  for (int links = 0; links < kMaxLinks; ++links) {
    char text[PATH_MAX];
    const ssize_t size = readlink(target.c_str(), text, sizeof(text));
    if (size < 0) return target;  // no link, or nothing yet
    const std::string next(text, static_cast<size_t>(size));
    target = next.rfind('/', 0) == 0
                 ? next
                 : absl::StrCat(FolderOf(target), "/", next);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("cannot write ", path, ": ", std::strerror(ELOOP)));
}

absl::Status RemoveOldFile(const std::string& path) {
  if (IsSpecialFile(path)) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const std::string target, FollowLinks(path));
  if (unlink(target.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return FileError(errno, "remove the old file", path);
}

}  // namespace millrace
