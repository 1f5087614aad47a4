#include "common/write_target.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/file_error.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

// As the kernel's own limit.
constexpr int kMaxLinks = 40;

// The path that the link `path` leads to; nothing when it is no link.
std::optional<std::string> NextLink(const std::string& path) {
  char text[PATH_MAX];
  const ssize_t size = readlink(path.c_str(), text, sizeof(text));
  if (size < 0) return std::nullopt;
  std::string next(text, static_cast<size_t>(size));
  if (next.rfind('/', 0) == 0) return next;
  return absl::StrCat(FolderOf(path), "/", next);
}

// The descriptor of this process that `path` names, perhaps through links.
std::optional<int> NamedDescriptor(std::string path) {
  for (int links = 0; links < kMaxLinks; ++links) {
    int fd = -1;
    if (path == "/dev/stdout") return STDOUT_FILENO;
    if (path == "/dev/stderr") return STDERR_FILENO;
    absl::string_view rest = path;
    if ((absl::ConsumePrefix(&rest, "/dev/fd/") ||
         absl::ConsumePrefix(&rest, "/proc/self/fd/")) &&
        absl::SimpleAtoi(rest, &fd) && fd >= 0) {
      return fd;
    }
    std::optional<std::string> next = NextLink(path);
    if (!next.has_value()) return std::nullopt;
    path = *std::move(next);
  }
  return std::nullopt;
}

bool IsPipe(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode);
}

}  // namespace

absl::StatusOr<int> OpenSpecialFile(const std::string& path) {
  int fd = -1;
  if (const std::optional<int> named = NamedDescriptor(path);
      named.has_value()) {
    fd = fcntl(*named, F_DUPFD_CLOEXEC, 0);
  } else {
    // Without O_NONBLOCK the open() of a pipe waits for a reader.
    fd = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENXIO && IsPipe(path)) {
      return absl::UnavailableError(
          absl::StrCat("cannot write ", path,
                       ": no program reads the pipe; start the reader first"));
    }
    // Writes wait for room in the pipe.
    if (fd >= 0) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  }
  if (fd < 0) return FileError(errno, "write", path);
  return fd;
}

bool IsSpecialFile(const std::string& path) {
  if (NamedDescriptor(path).has_value()) return true;
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) &&
         !S_ISDIR(info.st_mode);
}

absl::StatusOr<std::string> FollowLinks(const std::string& path) {
  std::string target = path;
  for (int links = 0; links < kMaxLinks; ++links) {
    std::optional<std::string> next = NextLink(target);
    if (!next.has_value()) return target;  // no link, or nothing yet
    target = *std::move(next);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("cannot write ", path, ": ", std::strerror(ELOOP)));
}

absl::StatusOr<std::string> RealPath(absl::string_view path) {
  while (path.size() > 1 && absl::ConsumeSuffix(&path, "/")) {
  }
  MR_ASSIGN_OR_RETURN(const std::string target, FollowLinks(std::string(path)));
  std::error_code error;
  // Absolute first: weakly_canonical() leaves a path relative of which nothing
  // exists.
  std::filesystem::path real = std::filesystem::absolute(target, error);
  if (!error) real = std::filesystem::weakly_canonical(real, error);
  return error ? target : real.string();
}

absl::Status RemoveOldFile(const std::string& path) {
  if (IsSpecialFile(path)) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const std::string target, FollowLinks(path));
  if (unlink(target.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return FileError(errno, "remove the old file", path);
}

}  // namespace millrace
