#include "server/storage/memory/sealed_map.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace millrace::storage {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
constexpr uint64_t kStatBlockBytes = 512;  // of st_blocks, on every file system

absl::Status Refused(absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("the file of the arrays ", why));
}

}  // namespace

absl::StatusOr<SealedMap> SealedMap::Open(int file) {
  struct stat status = {};
  struct statfs system = {};
  if (fstat(file, &status) != 0 || fstatfs(file, &system) != 0 ||
      !S_ISREG(status.st_mode) || system.f_type != TMPFS_MAGIC) {
    return Refused(
        "is not an anonymous memory file: create it with memfd_create");
  }
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return Refused(
        "is not sealed, so that its maker could change it while it is read: "
        "add the seals F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_WRITE");
  }
  if (status.st_size <= 0) return Refused("is empty");
  const uint64_t bytes = static_cast<uint64_t>(status.st_size);
  if (static_cast<uint64_t>(status.st_blocks) < bytes / kStatBlockBytes) {
    return Refused(absl::StrCat("has holes: ", bytes, " bytes, of which ",
                                status.st_blocks * kStatBlockBytes,
                                " were written"));
  }
  // Private: Linux before 6.7 refuses shared maps of files with F_SEAL_WRITE.
  // Pages that are only read are those of the file all the same.
  void* const map = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  if (map == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map the file of the arrays (", bytes,
                     " bytes): ", strerror(errno)));
  }
  return SealedMap(static_cast<const uint8_t*>(map), bytes);
}

SealedMap::~SealedMap() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), bytes_);
}

}  // namespace millrace::storage
