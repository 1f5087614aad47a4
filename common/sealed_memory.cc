#include "common/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

// Linux 5.1; older headers lack it.
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace millrace {
namespace {

constexpr int kSeals =
    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

absl::Status NoMemory(uint64_t bytes, absl::string_view step) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "the system cannot provide ", bytes, " bytes of shared memory (", step,
      ": ", strerror(errno), ")"));
}

uint8_t* Map(int file, uint64_t bytes, int protection) {
  // All pages at once: a fault for each would cost as much as filling it.
  void* data =
      mmap(nullptr, bytes, protection, MAP_SHARED | MAP_POPULATE, file, 0);
  return data == MAP_FAILED ? nullptr : static_cast<uint8_t*>(data);
}

}  // namespace

uint64_t SealedMemory::Rounded(uint64_t bytes) {
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return (std::max<uint64_t>(bytes, 1) + page - 1) / page * page;
}

absl::StatusOr<SealedMemory> SealedMemory::Create(uint64_t bytes,
                                                  UniqueFd* file) {
  const uint64_t rounded = Rounded(bytes);
  UniqueFd made(memfd_create("millrace", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made.ok()) return NoMemory(rounded, "memfd_create");
  if (ftruncate(made.get(), static_cast<off_t>(rounded)) != 0) {
    return NoMemory(rounded, "ftruncate");
  }
  // Without it a page that the system cannot give is a SIGBUS later.
  if (fallocate(made.get(), 0, 0, static_cast<off_t>(rounded)) != 0) {
    return NoMemory(rounded, "fallocate");
  }
  uint8_t* data = Map(made.get(), rounded, PROT_READ | PROT_WRITE);
  if (data == nullptr) return NoMemory(rounded, "mmap");
  SealedMemory memory(data, rounded);
  if (fcntl(made.get(), F_ADD_SEALS, kSeals) != 0) {
    return NoMemory(rounded, "sealing it");
  }
  *file = std::move(made);
  return memory;
}

absl::StatusOr<SealedMemory> SealedMemory::MapReadOnly(int file,
                                                       uint64_t bytes) {
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    return absl::InvalidArgumentError(
        "the other process offered a file that is not sealed memory");
  }
  struct stat status = {};
  const uint64_t rounded = Rounded(bytes);
  if (bytes == 0 || fstat(file, &status) != 0 ||
      static_cast<uint64_t>(status.st_size) != rounded) {
    return absl::InvalidArgumentError(
        absl::StrCat("the other process offered shared memory of ",
                     status.st_size, " bytes instead of ", rounded));
  }
  uint8_t* data = Map(file, rounded, PROT_READ);
  if (data == nullptr) return NoMemory(rounded, "mmap");
  return SealedMemory(data, rounded);
}

void SealedMemory::Unmap() {
  if (data_ != nullptr) munmap(data_, bytes_);
  data_ = nullptr;
}

}  // namespace millrace
