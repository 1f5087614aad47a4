#include "server/storage/imagefolder/folder_entries.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "common/file_error.h"

namespace millrace::storage {
namespace {

// A time beyond the years that 64 bits hold in nanoseconds (1677 to 2262),
// which file systems allow, wraps around: times are only compared.
int64_t Nanos(const struct timespec& time) {
  return static_cast<int64_t>(static_cast<uint64_t>(time.tv_sec) *
                                  1'000'000'000 +
                              static_cast<uint64_t>(time.tv_nsec));
}

}  // namespace

FolderState StateOf(std::string path, const struct stat& info) {
  return {.path = std::move(path),
          .modified_nanos = Nanos(info.st_mtim),
          .changed_nanos = Nanos(info.st_ctim),
          .inode = info.st_ino};
}

int64_t ModifiedNanos(const struct stat& info) { return Nanos(info.st_mtim); }

absl::StatusOr<FolderEntries> ReadFolder(const std::string& path,
                                         const std::string& below) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()),
                                                   closedir);
  struct stat info;
  if (folder == nullptr || fstat(dirfd(folder.get()), &info) != 0) {
    return FileError(errno, "read folder", path);
  }
  FolderEntries entries;
  // Before the entries are read: a later change then makes it outdated.
  entries.state = StateOf(below, info);
  entries.device = info.st_dev;
  errno = 0;
  while (const dirent* found = readdir(folder.get())) {
    FolderEntry entry;
    entry.name = found->d_name;
    if (entry.name == "." || entry.name == "..") continue;
    if (absl::StartsWith(entry.name, ".")) {
      entries.hidden.push_back(std::move(entry.name));
      continue;
    }
    if (fstatat(dirfd(folder.get()), found->d_name, &info, 0) != 0) {
      entry.error = errno;
      // Not a link that leads nowhere: removed since readdir() has found it.
      if (entry.error == ENOENT && fstatat(dirfd(folder.get()), found->d_name,
                                           &info, AT_SYMLINK_NOFOLLOW) != 0) {
        errno = 0;
        continue;
      }
    } else {
      entry.folder = S_ISDIR(info.st_mode);
      entry.regular = S_ISREG(info.st_mode);
      entry.bytes = static_cast<uint64_t>(info.st_size);
      entry.modified_nanos = ModifiedNanos(info);
    }
    (entry.folder ? entries.folders : entries.files)
        .push_back(std::move(entry));
    errno = 0;
  }
  if (errno != 0) return FileError(errno, "read folder", path);
  const auto by_name = [](const FolderEntry& a, const FolderEntry& b) {
    return a.name < b.name;
  };
  std::sort(entries.files.begin(), entries.files.end(), by_name);
  std::sort(entries.folders.begin(), entries.folders.end(), by_name);
  std::sort(entries.hidden.begin(), entries.hidden.end());
  return entries;
}

}  // namespace millrace::storage
