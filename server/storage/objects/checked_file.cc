#include "server/storage/objects/checked_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/file_error.h"

namespace millrace::storage {
namespace {

// Why the file is not the expected one; empty: it is.
std::string WhyChanged(const struct stat& now, const FileVersion& version) {
  if (!S_ISREG(now.st_mode)) return "is no longer a regular file";
  const auto bytes = static_cast<uint64_t>(now.st_size);
  if (bytes != version.bytes) {
    return absl::StrCat(bytes < version.bytes ? "was truncated" : "grew",
                        " from ", version.bytes, " to ", bytes, " bytes ",
                        version.since);
  }
  if (NanosOf(now.st_mtim) != version.modified_nanos) {
    return absl::StrCat("was overwritten ", version.since);
  }
  if (!version.strict.has_value()) return "";
  if (now.st_nlink == 0 || now.st_ino != version.strict->inode) {
    return absl::StrCat("was deleted or replaced by another file ",
                        version.since);
  }
  if (NanosOf(now.st_ctim) != version.strict->changed_nanos) {
    return absl::StrCat(
        "was replaced by another file, or its permissions, owner, name, "
        "links or times were changed, ",
        version.since);
  }
  return "";
}

}  // namespace

absl::Status FileFault::ToStatus(const std::string& path) const {
  const absl::Status failed = FileError(error, action, path);
  if (error == EACCES || error == EPERM) {
    return absl::DataLossError(
        absl::StrCat(failed.message(), ": give the server's user (", geteuid(),
                     ") the permission to read the file"));
  }
  return absl::UnavailableError(failed.message());
}

int64_t NanosOf(const struct timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

UniqueFd OpenToRead(int folder, const std::string& path) {
  return UniqueFd(openat(folder, path.c_str(),
                         O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

FileFault OpenFault(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
      return {.changed = "is no longer there"};
    case ENXIO:  // a socket, or a device without a driver
      return {.changed = "is no longer a regular file"};
    default:
      return {.error = error, .action = "open"};
  }
}

std::optional<FileFault> CheckVersion(int file, const FileVersion& version) {
  struct stat now;
  if (fstat(file, &now) != 0) {
    return FileFault{.error = errno, .action = "read"};
  }
  std::string why = WhyChanged(now, version);
  if (why.empty()) return std::nullopt;
  return FileFault{.changed = std::move(why)};
}

std::optional<FileFault> ReadUnchecked(int file, const FileVersion& version,
                                       uint64_t offset,
                                       absl::Span<uint8_t> data) {
  for (size_t done = 0; done < data.size();) {
    const uint64_t at = offset + done;
    const ssize_t got = pread(file, data.data() + done, data.size() - done,
                              static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const int error = got < 0 ? errno : EIO;
      if (auto fault = CheckVersion(file, version)) return fault;
      return FileFault{.error = error,
                       .action = absl::StrCat("read byte ", at, " of")};
    }
    done += static_cast<size_t>(got);
  }
  return std::nullopt;
}

std::optional<FileFault> ReadChecked(int file, const FileVersion& version,
                                     uint64_t offset,
                                     absl::Span<uint8_t> data) {
  if (auto fault = ReadUnchecked(file, version, offset, data)) return fault;
  return CheckVersion(file, version);
}

}  // namespace millrace::storage
