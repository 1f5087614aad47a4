#include "server/storage/temporary_files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/file_error.h"
#include "common/folder.h"
#include "common/logging.h"
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
    if (IsPackedShardName(name) || IsTemporaryName(name)) {
      (void)unlink(JoinPath(path, name).c_str());
    }
  }
  return rmdir(path.c_str()) == 0;
}

TemporaryFiles::TemporaryFiles(
    const std::string& folder,
    absl::FunctionRef<bool(absl::string_view)> ours) {
  fd_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0) return;  // the first write reports the error
  const bool alone = flock(fd_, LOCK_EX | LOCK_NB) == 0;
  const auto names = NamesIn(folder);
  for (const std::string& name :
       names.ok() ? *names : std::vector<std::string>()) {
    absl::string_view of;
    int pid = 0;
    if (!ParseTemporaryName(name, &of, &pid) || !ours(of)) continue;
    const std::string path = JoinPath(folder, name);
    if (alone && IsGone(pid) && Remove(path)) {
      MR_LOG(INFO) << "removed " << path << ", left by an interrupted pack";
    } else {
      MR_LOG(WARNING) << path << " belongs to another pack of " << folder << "/"
                      << of
                      << ", which may still run; if none runs, remove the file";
    }
  }
  // Waits at most as long as other processes remove leftovers.
  (void)flock(fd_, LOCK_SH);
}

TemporaryFiles::~TemporaryFiles() {
  if (fd_ >= 0) close(fd_);
}

TemporaryFiles::TemporaryFiles(TemporaryFiles&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

TemporaryFiles& TemporaryFiles::operator=(TemporaryFiles&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

}  // namespace millrace::storage
