#include "server/storage/objects/local_objects.h"

#include <sys/stat.h>

#include <cerrno>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/file_error.h"
#include "server/storage/objects/checked_file.h"

namespace millrace::storage {
namespace {

absl::Status StatusOf(const FileFault& fault, const std::string& name) {
  if (fault.changed.empty()) return fault.ToStatus(name);
  return absl::DataLossError(absl::StrCat(
      name, " ", fault.changed,
      ": the file is not read; restart the data server, the millrace-data "
      "command, or the program that started the server: the file is then "
      "indexed again"));
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
                        .modified_nanos = NanosOf(info.st_mtim),
                        .changed_nanos = NanosOf(info.st_ctim),
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
  const OpenFiles::Use file(files_, this, name);
  if (file.fd() < 0) return StatusOf(OpenFault(file.error()), name);
  const std::optional<FileFault> fault = ReadChecked(
      file.fd(),
      {.bytes = expected.bytes,
       .modified_nanos = expected.modified_nanos,
       .strict = FileVersion::Strict{expected.changed_nanos, expected.inode},
       .since = "after it was indexed"},
      offset, data);
  return fault.has_value() ? StatusOf(*fault, name) : absl::OkStatus();
}

}  // namespace millrace::storage
