#include "common/folder.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/file_error.h"
#include "common/status_macros.h"

namespace millrace {
namespace {

// Creates `part`, which is `path` or a folder above it.
absl::StatusOr<bool> Make(const std::string& part, const std::string& path) {
  if (mkdir(part.c_str(), 0777) == 0) return true;
  const int error = errno;
  if (IsFolder(part)) return false;
  if (error != EEXIST) return FileError(error, "create the folder", part);
  return absl::AlreadyExistsError(
      absl::StrCat("cannot create the folder ", path, ": ",
                   part == path ? "it" : absl::string_view(part),
                   access(part.c_str(), F_OK) == 0 ? " is a file"
                                                   : " is a link to nothing"));
}

}  // namespace

bool IsFolder(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

absl::StatusOr<bool> MakeFolder(const std::string& path) {
  return Make(path, path);
}

absl::Status MakeFolders(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    MR_RETURN_IF_ERROR(Make(path.substr(0, slash), path).status());
    if (slash == std::string::npos) return absl::OkStatus();
  }
}

std::string JoinPath(absl::string_view folder, absl::string_view name) {
  return absl::StrCat(folder, absl::EndsWith(folder, "/") ? "" : "/", name);
}

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()),
                                                    closedir);
  if (entries == nullptr) return FileError(errno, "read folder", folder);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = readdir(entries.get())) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  // The end, or an error: names may be missing.
  if (errno != 0) return FileError(errno, "read folder", folder);
  return names;
}

}  // namespace millrace
