#include "trainer/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/atomic_file.h"
#include "common/file_error.h"
#include "common/folder.h"
#include "common/status_macros.h"
#include "common/write_target.h"

namespace millrace::trainer {

namespace {

// Refuses `path`, of `flag`, beside a folder.
absl::Status CheckApartFrom(const NamedFolder& folder, absl::string_view flag,
                            const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::string real, RealPath(path));
  MR_ASSIGN_OR_RETURN(const std::string real_folder, RealPath(folder.path));
  if (real == real_folder) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " and ", folder.flag, " both name ", path, ", but ", flag,
        " is a file and ", folder.flag, " a folder; give each its own path"));
  }
  if (absl::StartsWith(real_folder, real + "/")) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder.flag, "=", folder.path, " is a folder below ", flag,
                     "=", path, ", which is a file; give each its own path"));
  }
  const std::string name = FileName(real);
  const bool has_names = !folder.prefix.empty() || !folder.suffix.empty();
  if (has_names && FolderOf(real) == real_folder &&
      absl::StartsWith(name, folder.prefix) &&
      absl::EndsWith(name, folder.suffix)) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, "=", path, " has the name of a file that ", folder.flag, "=",
        folder.path, " writes; give it another name"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckWritable(const std::string& path) {
  if (IsFolder(path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write ", path, ": it is a folder; name a file"));
  }
  if (IsSpecialFile(path)) {
    // Not opened: closing the pipe again would end its reader.
    return access(path.c_str(), W_OK) == 0 ? absl::OkStatus()
                                           : FileError(errno, "write", path);
  }
  MR_ASSIGN_OR_RETURN(const std::string target, FollowLinks(path));
  RemoveLeftovers(target);
  return AtomicFile::Create(path).status();
}

absl::Status CheckDistinct(const NamedFiles& files) {
  std::map<std::string, absl::string_view> flags;
  for (const auto& [flag, path] : files) {
    if (path.empty() || IsSpecialFile(path)) continue;
    MR_ASSIGN_OR_RETURN(std::string real, RealPath(path));
    const auto [other, first] = flags.emplace(std::move(real), flag);
    if (first) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(other->second, " and ", flag, " both name ", path,
                     "; give each a file of its own"));
  }
  return absl::OkStatus();
}

absl::Status CheckApart(const NamedFiles& files,
                        const std::vector<NamedFolder>& folders) {
  for (const auto& [flag, path] : files) {
    if (path.empty() || IsSpecialFile(path)) continue;
    for (const NamedFolder& folder : folders) {
      if (folder.path.empty()) continue;
      MR_RETURN_IF_ERROR(CheckApartFrom(folder, flag, path));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckReadable(const std::string& path) {
  if (access(path.c_str(), R_OK) != 0) return FileError(errno, "read", path);
  if (IsFolder(path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot read ", path, ": it is a folder; name a file in it"));
  }
  return absl::OkStatus();
}

absl::Status CheckFolder(absl::string_view flag, const std::string& path) {
  std::string at = path;
  while (true) {
    while (at.size() > 1 && absl::EndsWith(at, "/")) at.pop_back();
    struct stat info;
    if (stat(at.c_str(), &info) == 0) {
      if (S_ISDIR(info.st_mode)) {
        return access(at.c_str(), W_OK | X_OK) == 0
                   ? absl::OkStatus()
                   : FileError(errno, "write", at);
      }
      return absl::InvalidArgumentError(
          absl::StrCat(flag, "=", path, ": ", at,
                       " is a file; name a folder, which need not exist"));
    }
    if (errno != ENOENT && errno != ENOTDIR) {
      return FileError(errno, "write", at);
    }
    if (lstat(at.c_str(), &info) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, "=", path, ": ", at,
                       " is a link to nothing; make the folder that it leads "
                       "to, or name another folder"));
    }
    if (at == "." || at == "/") return FileError(ENOENT, "write", path);
    at = FolderOf(at);
  }
}

}  // namespace millrace::trainer
