#include "server/storage/objects/local_objects.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/file_error.h"
#include "common/status_macros.h"

namespace millrace::storage {
namespace {

int64_t Nanos(const struct timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

absl::Status Changed(const std::string& name, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(
      name, " ", why,
      ": the file is not read; restart the data server, the millrace-data "
      "command, or the program that started the server: the file is then "
      "indexed again"));
}

absl::Status Failed(const std::string& name, absl::string_view action,
                    int error) {
  const absl::Status failed = FileError(error, action, name);
  if (error == EACCES || error == EPERM) {
    return absl::DataLossError(
        absl::StrCat(failed.message(), ": give the server's user (", geteuid(),
                     ") the permission to read the file"));
  }
  return absl::UnavailableError(failed.message());
}

// Why the file is not the expected one; empty: it is.
std::string WhyChanged(const struct stat& now, const ObjectIdentity& expected) {
  if (!S_ISREG(now.st_mode)) return "is no longer a regular file";
  const auto bytes = static_cast<uint64_t>(now.st_size);
  if (bytes != expected.bytes) {
    return absl::StrCat(bytes < expected.bytes ? "was truncated" : "grew",
                        " from ", expected.bytes, " to ", bytes,
                        " bytes after it was indexed");
  }
  if (Nanos(now.st_mtim) != expected.modified_nanos) {
    return "was overwritten after it was indexed";
  }
  if (now.st_nlink == 0 || now.st_ino != expected.inode) {
    return "was deleted or replaced by another file after it was indexed";
  }
  if (Nanos(now.st_ctim) != expected.changed_nanos) {
    return "was replaced by another file, or its permissions, owner, name, "
           "links or times were changed, after it was indexed";
  }
  return "";
}

absl::Status CheckFile(int fd, const std::string& name,
                       const ObjectIdentity& expected) {
  struct stat now;
  if (fstat(fd, &now) != 0) return Failed(name, "read", errno);
  const std::string why = WhyChanged(now, expected);
  return why.empty() ? absl::OkStatus() : Changed(name, why);
}

absl::Status ReadRange(int fd, const std::string& name,
                       const ObjectIdentity& expected, uint64_t offset,
                       absl::Span<uint8_t> data) {
  MR_RETURN_IF_ERROR(CheckFile(fd, name, expected));
  for (size_t done = 0; done < data.size();) {
    const uint64_t at = offset + done;
    const ssize_t got = pread(fd, data.data() + done, data.size() - done,
                              static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const int error = got < 0 ? errno : EIO;
      MR_RETURN_IF_ERROR(CheckFile(fd, name, expected));
      return Failed(name, absl::StrCat("read byte ", at, " of"), error);
    }
    done += static_cast<size_t>(got);
  }
  return CheckFile(fd, name, expected);
}

}  // namespace

absl::StatusOr<ObjectIdentity> LocalObjects::Stat(const std::string& name) {
  struct stat info;
  if (stat(name.c_str(), &info) != 0) {
    switch (errno) {
      case ENOENT:
      case ENOTDIR:
      case EACCES:
      case EPERM:
      case ELOOP:
      case ENAMETOOLONG:
        return FileError(errno, "open", name);
      default:
        return absl::UnavailableError(FileError(errno, "open", name).message());
    }
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name,
        " is not a regular file but a folder, a FIFO, a socket or a "
        "device: name a file"));
  }
  return ObjectIdentity{.bytes = static_cast<uint64_t>(info.st_size),
                        .modified_nanos = Nanos(info.st_mtim),
                        .changed_nanos = Nanos(info.st_ctim),
                        .inode = info.st_ino};
}

absl::Status LocalObjects::Read(const std::string& name,
                                const ObjectIdentity& expected, uint64_t offset,
                                absl::Span<uint8_t> data) {
  if (offset > expected.bytes || data.size() > expected.bytes - offset) {
    return absl::DataLossError(
        absl::StrCat(name, " ends at byte ", expected.bytes, ", before ",
                     data.size(), " bytes from byte ", offset));
  }
  MR_ASSIGN_OR_RETURN(const Files::iterator file, Acquire(name));
  absl::Status status = ReadRange(file->fd.get(), name, expected, offset, data);
  Release(file);
  return status;
}

int LocalObjects::open_files() const {
  MutexLock lock(mu_);
  return places_;
}

LocalObjects::Files::iterator LocalObjects::Use(Files::iterator file) {
  files_.splice(files_.begin(), files_, file);
  ++file->readers;
  return file;
}

absl::StatusOr<LocalObjects::Files::iterator> LocalObjects::Acquire(
    const std::string& name) {
  Files closed;  // destroyed after the lock
  {
    MutexLock lock(mu_);
    for (;;) {
      const auto found = by_name_.find(name);
      if (found != by_name_.end()) return Use(found->second);
      if (places_ < max_open_) break;
      const auto idle =
          std::find_if(files_.rbegin(), files_.rend(),
                       [](const File& file) { return file.readers == 0; });
      if (idle != files_.rend()) {
        const auto file = std::prev(idle.base());
        by_name_.erase(file->name);
        closed.splice(closed.begin(), files_, file);
        --places_;
        break;
      }
      idle_.Wait(lock);
    }
    ++places_;
  }
  // Before another file is opened, so that the bound holds.
  closed.clear();
  // Without O_NONBLOCK the open() of a FIFO waits for a writer.
  UniqueFd fd(open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  const int error = errno;
  MutexLock lock(mu_);
  if (!fd.ok()) {
    --places_;
    idle_.NotifyAll();
    switch (error) {
      case ENOENT:
      case ENOTDIR:
      case ELOOP:
        return Changed(name, "is no longer there");
      case ENXIO:  // a socket, or a device without a driver
        return Changed(name, "is no longer a regular file");
      default:
        return Failed(name, "open", error);
    }
  }
  // Another thread may have opened it meanwhile.
  const auto found = by_name_.find(name);
  if (found != by_name_.end()) {
    --places_;
    idle_.NotifyAll();
    return Use(found->second);
  }
  files_.push_front({.name = name, .fd = std::move(fd)});
  by_name_[name] = files_.begin();
  return Use(files_.begin());
}

void LocalObjects::Release(Files::iterator file) {
  MutexLock lock(mu_);
  if (--file->readers == 0) idle_.NotifyOne();
}

}  // namespace millrace::storage
