#include "common/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/file_error.h"
#include "common/folder.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "common/unique_fd.h"
#include "common/write_bytes.h"
#include "common/write_target.h"

namespace millrace {
namespace {

// Unlike a process id, a random name is never that of a process on another
// machine or in another container.
std::string Beside(const std::string& target) {
  std::random_device random;
  const uint64_t number = uint64_t{random()} << 32 | random();
  return absl::StrCat(target, ".tmp.", getpid(), ".",
                      absl::Hex(number, absl::kZeroPad16));
}

// Whether `rest` of a name comes from Beside(), or is "PID" as older versions
// wrote it.
bool IsOfBeside(absl::string_view rest) {
  const size_t dot = rest.find('.');
  const absl::string_view process = rest.substr(0, dot);
  if (process.empty() ||
      process.find_first_not_of("0123456789") != absl::string_view::npos) {
    return false;
  }
  if (dot == absl::string_view::npos) return true;
  rest.remove_prefix(dot + 1);
  return rest.size() == 16 &&
         rest.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

// The lock says that a process writes the file; it ends with the process. A
// file system without locks has no leftovers removed.
bool Lock(int fd, int how) {
  while (flock(fd, how) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

// A new file beside `target`, locked. -1: errno says why.
int CreateBeside(const std::string& target, std::string* path) {
  while (true) {
    *path = Beside(target);
    const int fd =
        open(path->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return fd;
    Lock(fd, LOCK_EX);
    // RemoveLeftovers() may have come before the lock.
    struct stat info = {};
    if (fstat(fd, &info) != 0 || info.st_nlink > 0) return fd;
    close(fd);
  }
}

}  // namespace

void RemoveLeftovers(const std::string& target) {
  const std::string folder = FolderOf(target);
  const std::string prefix = absl::StrCat(FileName(target), ".tmp.");
  const auto names = NamesIn(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    absl::string_view rest = name;
    if (!absl::ConsumePrefix(&rest, prefix) || !IsOfBeside(rest)) continue;
    const std::string leftover = absl::StrCat(folder, "/", name);
    // Without O_NONBLOCK a pipe of this name would be waited for.
    const int fd =
        open(leftover.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) continue;
    if (Lock(fd, LOCK_EX | LOCK_NB) && unlink(leftover.c_str()) == 0) {
      MR_LOG(INFO) << "removed " << leftover
                   << ", an incomplete file of a process that has ended";
    }
    close(fd);
  }
}

AtomicFile::AtomicFile(std::string path, std::string target, std::string fresh,
                       Lasts lasts, int fd)
    : path_(std::move(path)),
      target_(std::move(target)),
      fresh_(std::move(fresh)),
      in_place_(fresh_.empty()),
      lasts_(lasts),
      fd_(fd) {}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(
    const std::string& path, Lasts lasts) {
  if (IsSpecialFile(path)) {
    MR_ASSIGN_OR_RETURN(const int fd, OpenSpecialFile(path));
    return std::unique_ptr<AtomicFile>(
        new AtomicFile(path, path, /*fresh=*/"", lasts, fd));
  }
  MR_ASSIGN_OR_RETURN(std::string target, FollowLinks(path));
  std::string fresh;
  const int fd = CreateBeside(target, &fresh);
  if (fd < 0) return FileError(errno, "write", path);
  // The constructor is private.
  return std::unique_ptr<AtomicFile>(
      new AtomicFile(path, std::move(target), std::move(fresh), lasts, fd));
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!committed_ && !in_place_) unlink(fresh_.c_str());
}

absl::Status AtomicFile::Write(absl::string_view bytes) {
  if (status_.ok()) status_ = WriteBytes(fd_, path_, &bytes);
  return status_;
}

absl::Status AtomicFile::Commit() {
  // Pipes and most devices have nothing to synchronise, and say EINVAL.
  if (status_.ok() && lasts_ == Lasts::kThroughPowerLoss && fsync(fd_) != 0 &&
      !(in_place_ && errno == EINVAL)) {
    status_ = FileError(errno, "write", path_);
  }
  MR_RETURN_IF_ERROR(status_);
  // Closing may report a failed write, so it comes before the rename; a second
  // descriptor holds the lock until then.
  const UniqueFd lock(in_place_ ? -1 : fcntl(fd_, F_DUPFD_CLOEXEC, 0));
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
