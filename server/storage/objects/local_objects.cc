#include "server/storage/objects/local_objects.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/file_error.h"
#include "common/status_macros.h"

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

FileVersion VersionOf(const ObjectIdentity& expected) {
  return {.bytes = expected.bytes,
          .modified_nanos = expected.modified_nanos,
          .strict = FileVersion::Strict{expected.changed_nanos, expected.inode},
          .since = "after it was indexed"};
}

absl::Status CheckRange(const std::string& name, const ObjectIdentity& expected,
                        uint64_t offset, uint64_t bytes) {
  if (offset <= expected.bytes && bytes <= expected.bytes - offset) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(name, " ends at byte ",
                                          expected.bytes, ", before ", bytes,
                                          " bytes from byte ", offset));
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
  MR_RETURN_IF_ERROR(CheckRange(name, expected, offset, data.size()));
  return WithFile(name, [&](int file) {
    return ReadChecked(file, VersionOf(expected), offset, data);
  });
}

absl::Status LocalObjects::ReadUnchecked(const std::string& name,
                                         const ObjectIdentity& expected,
                                         uint64_t offset,
                                         absl::Span<uint8_t> data) {
  MR_RETURN_IF_ERROR(CheckRange(name, expected, offset, data.size()));
  return WithFile(name, [&](int file) {
    return storage::ReadUnchecked(file, VersionOf(expected), offset, data);
  });
}

absl::Status LocalObjects::CheckIdentity(const std::string& name,
                                         const ObjectIdentity& expected) {
  return WithFile(
      name, [&](int file) { return CheckVersion(file, VersionOf(expected)); });
}

absl::Status LocalObjects::WithFile(
    const std::string& name,
    absl::FunctionRef<std::optional<FileFault>(int file)> use) {
  const OpenFiles::Use file(files_, this, name);
  if (file.fd() < 0) return StatusOf(OpenFault(file.error()), name);
  const std::optional<FileFault> fault = use(file.fd());
  return fault.has_value() ? StatusOf(*fault, name) : absl::OkStatus();
}

}  // namespace millrace::storage
