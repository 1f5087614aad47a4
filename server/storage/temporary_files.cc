#include "server/storage/temporary_files.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/file_error.h"
#include "common/folder.h"
#include "common/logging.h"
#include "server/storage/packing_journal.h"
#include "server/storage/shard_paths.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kSuffix = ".tmp";

// Parses ".NAME.PID.tmp"; false for any other name.
bool ParseTemporaryName(absl::string_view name, absl::string_view* of,
                        int* pid) {
  if (!IsTemporaryName(name)) return false;
  name.remove_prefix(1);
  name.remove_suffix(kSuffix.size());
  const size_t dot = name.rfind('.');
  if (dot == name.npos) return false;
  *of = name.substr(0, dot);
  return absl::SimpleAtoi(name.substr(dot + 1), pid) && *pid > 0;
}

// This process has made no file yet, so a name with its PID is from an earlier
// process.
bool IsGone(int pid) {
  return pid == getpid() || (kill(pid, 0) != 0 && errno == ESRCH);
}

void WarnOfOther(const std::string& path, const std::string& folder,
                 absl::string_view of) {
  MR_LOG(WARNING) << path << " belongs to another pack of " << folder << "/"
                  << of
                  << ", which may still run; if none runs, remove the file";
}

// Where a link leads; empty: unknown.
std::string ReadLink(const std::string& path) {
  char target[4096];
  const ssize_t bytes = readlink(path.c_str(), target, sizeof(target));
  return bytes < 0 ? "" : std::string(target, bytes);
}

// True if the process surely runs another program than this one. Numbers of
// processes are used again, in containers always the same ones.
bool RunsOther(int pid) {
  const std::string own = ReadLink("/proc/self/exe");
  const std::string other = ReadLink(absl::StrCat("/proc/", pid, "/exe"));
  return !own.empty() && !other.empty() && own != other;
}

bool IsRealFolder(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool Remove(const std::string& path) {
  if (unlink(path.c_str()) == 0) return true;
  // The remains of the test whether two folders can be exchanged.
  for (const char* name : {"a", "b"}) (void)rmdir(JoinPath(path, name).c_str());
  return RemoveShardFolder(path);
}

}  // namespace

std::string TemporaryPath(const std::string& path) {
  return JoinPath(FolderOf(path),
                  absl::StrCat(".", FileName(path), ".", getpid(), kSuffix));
}

bool IsTemporaryName(absl::string_view name) {
  return absl::StartsWith(name, ".") && absl::EndsWith(name, kSuffix);
}

bool IsPackedShardName(absl::string_view name) {
  NumberedName numbered;
  return (ParseNumberedName(name, ".lmdb", &numbered) ||
          ParseNumberedName(name, ".parquet", &numbered)) &&
         numbered.prefix == "part";
}

bool RemoveShardFolder(const std::string& path) {
  const auto names = NamesIn(path);
  if (!names.ok()) return false;
  for (const std::string& name : *names) {
    const std::string inner = JoinPath(path, name);
    if (IsTemporaryName(name) && IsRealFolder(inner)) {
      (void)RemoveShardFolder(inner);
    } else if (IsPackedShardName(name) || IsTemporaryName(name)) {
      (void)unlink(inner.c_str());
    }
  }
  return rmdir(path.c_str()) == 0;
}

bool FindLeftPacking(const std::string& folder, absl::string_view of,
                     PackingJournal::Content* journal) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  bool found = false;
  const auto names = flock(fd, LOCK_EX | LOCK_NB) == 0
                         ? NamesIn(folder)
                         : std::vector<std::string>();
  for (const std::string& name :
       names.ok() ? *names : std::vector<std::string>()) {
    absl::string_view left_of;
    int pid = 0;
    PackingJournal::Content left;
    if (!ParseTemporaryName(name, &left_of, &pid) || left_of != of ||
        !(IsGone(pid) || RunsOther(pid)) ||
        !PackingJournal::Read(JoinPath(folder, name), &left) ||
        (found && left.shards.size() <= journal->shards.size())) {
      continue;
    }
    *journal = std::move(left);
    found = true;
  }
  close(fd);
  return found;
}

TemporaryFiles::TemporaryFiles(const std::string& folder,
                               absl::FunctionRef<bool(absl::string_view)> ours,
                               const std::string& adopt_as) {
  fd_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0) return;  // the first write reports the error
  const bool alone = flock(fd_, LOCK_EX | LOCK_NB) == 0;
  const auto names = NamesIn(folder);
  std::vector<std::string> left;
  std::string best;
  size_t best_shards = 0;
  for (const std::string& name :
       names.ok() ? *names : std::vector<std::string>()) {
    absl::string_view of;
    int pid = 0;
    if (!ParseTemporaryName(name, &of, &pid) || !ours(of)) continue;
    const std::string path = JoinPath(folder, name);
    PackingJournal::Content journal;
    const bool has_journal = PackingJournal::Read(path, &journal);
    if (!alone || !(IsGone(pid) || (has_journal && RunsOther(pid)))) {
      WarnOfOther(path, folder, of);
      continue;
    }
    left.push_back(path);
    if (!adopt_as.empty() && has_journal &&
        journal.shards.size() > best_shards) {
      best = path;
      best_shards = journal.shards.size();
    }
  }
  for (const std::string& path : left) {
    if (path == best) continue;
    if (Remove(path)) {
      MR_LOG(INFO) << "removed " << path << ", left by an interrupted pack";
    } else {
      MR_LOG(WARNING) << "cannot remove all of " << path
                      << ", left by an interrupted pack; remove it";
    }
  }
  adopted_ = !best.empty() &&
             (best == adopt_as || rename(best.c_str(), adopt_as.c_str()) == 0);
  // Waits at most as long as other processes remove leftovers.
  (void)flock(fd_, LOCK_SH);
}

TemporaryFiles::~TemporaryFiles() {
  if (fd_ >= 0) close(fd_);
}

TemporaryFiles::TemporaryFiles(TemporaryFiles&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), adopted_(other.adopted_) {}

TemporaryFiles& TemporaryFiles::operator=(TemporaryFiles&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(adopted_, other.adopted_);
  return *this;
}

}  // namespace millrace::storage
