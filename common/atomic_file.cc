#include "common/atomic_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/file_error.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "common/write_target.h"

namespace millrace {
namespace {

std::string Beside(const std::string& target) {
  return absl::StrCat(target, ".tmp.", getpid());
}

}  // namespace

void RemoveLeftovers(const std::string& target) {
  const std::string folder = FolderOf(target);
  const std::string prefix = absl::StrCat(FileName(target), ".tmp.");
  DIR* const entries = opendir(folder.c_str());
  if (entries == nullptr) return;
  std::vector<std::string> names;
  while (const dirent* const entry = readdir(entries)) {
    names.emplace_back(entry->d_name);
  }
  closedir(entries);
  for (const std::string& name : names) {
    absl::string_view rest = name;
    pid_t process = 0;
    if (!absl::ConsumePrefix(&rest, prefix) ||
        !absl::SimpleAtoi(rest, &process) || process <= 0) {
      continue;
    }
    if (kill(process, 0) == 0 || errno != ESRCH) continue;
    const std::string leftover = absl::StrCat(folder, "/", name);
    if (unlink(leftover.c_str()) == 0) {
      MR_LOG(INFO) << "removed " << leftover
                   << ", an incomplete file of process " << process;
    }
  }
}

AtomicFile::AtomicFile(std::string path, std::string target, bool in_place,
                       Lasts lasts, int fd)
    : path_(std::move(path)),
      target_(std::move(target)),
      fresh_(Beside(target_)),
      in_place_(in_place),
      lasts_(lasts),
      fd_(fd) {}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(
    const std::string& path, Lasts lasts) {
  if (IsSpecialFile(path)) {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return FileError(errno, "write", path);
    return std::unique_ptr<AtomicFile>(
        new AtomicFile(path, path, /*in_place=*/true, lasts, fd));
  }
  MR_ASSIGN_OR_RETURN(std::string target, FollowLinks(path));
  // What lies under our own name is of a process that has ended.
  const std::string fresh = Beside(target);
  unlink(fresh.c_str());
  const int fd =
      open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return FileError(errno, "write", path);
  // The constructor is private.
  return std::unique_ptr<AtomicFile>(
      new AtomicFile(path, std::move(target), /*in_place=*/false, lasts, fd));
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!committed_ && !in_place_) unlink(fresh_.c_str());
}

absl::Status AtomicFile::Write(absl::string_view bytes) {
  while (status_.ok() && !bytes.empty()) {
    const ssize_t n = write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      status_ = FileError(errno, "write", path_);
    } else {
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  return status_;
}

absl::Status AtomicFile::Commit() {
  // Pipes and most devices have nothing to synchronise, and say EINVAL.
  if (status_.ok() && lasts_ == Lasts::kThroughPowerLoss && fsync(fd_) != 0 &&
      !(in_place_ && errno == EINVAL)) {
    status_ = FileError(errno, "write", path_);
  }
  MR_RETURN_IF_ERROR(status_);
  const int closed = close(std::exchange(fd_, -1));
  if (closed != 0 ||
      (!in_place_ && rename(fresh_.c_str(), target_.c_str()) != 0)) {
    return status_ = FileError(errno, "write", path_);
  }
  committed_ = true;
  if (in_place_ || lasts_ != Lasts::kThroughPowerLoss) return status_;
  // A rename is lasting only when its folder is.
  return status_ = SyncToDisk(FolderOf(target_));
}

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::string_view contents, Lasts lasts) {
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file,
                      AtomicFile::Create(path, lasts));
  MR_RETURN_IF_ERROR(file->Write(contents));
  return file->Commit();
}

}  // namespace millrace
