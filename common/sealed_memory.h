// SealedMemory is memory that one process writes and others read: an anonymous
// file (memfd) whose size is fixed and which can be mapped for writing only by
// its creator. It lives as long as a process maps it, and leaves nothing in any
// file system.
//
// The seals are SHRINK and GROW (a reader can never be made to read past its
// end, which would kill it), FUTURE_WRITE (the maker keeps its mapping, nobody
// gets another one that can be written) and SEAL.
//
// A mapping is not thread-safe beyond what memory is; it is unmapped with its
// owner.
//
//   UniqueFd file;
//   MR_ASSIGN_OR_RETURN(auto memory, SealedMemory::Create(bytes, &file));
//   ... send `file` to the reader ...
//   MR_ASSIGN_OR_RETURN(auto view, SealedMemory::MapReadOnly(file.get(),
//   bytes));

#ifndef MILLRACE_COMMON_SEALED_MEMORY_H_
#define MILLRACE_COMMON_SEALED_MEMORY_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace millrace {

class SealedMemory {
 public:
  // `bytes` rounded up to whole pages: what a memory of `bytes` takes.
  static uint64_t Rounded(uint64_t bytes);

  // Zeros, mapped for reading and writing, every page there already. `file` is
  // for the readers. ResourceExhausted: the system has no such memory.
  static absl::StatusOr<SealedMemory> Create(uint64_t bytes, UniqueFd* file);

  // Maps `bytes` of a file that another process sent. InvalidArgument: it is no
  // sealed memory of that size, so its maker could pull it away.
  static absl::StatusOr<SealedMemory> MapReadOnly(int file, uint64_t bytes);

  SealedMemory() = default;
  SealedMemory(SealedMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  SealedMemory& operator=(SealedMemory&& other) noexcept {
    if (this != &other) {
      Unmap();
      data_ = std::exchange(other.data_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }
  ~SealedMemory() { Unmap(); }

  // Page-aligned. Writable only from Create().
  uint8_t* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }  // mapped: whole pages

 private:
  SealedMemory(uint8_t* data, uint64_t bytes) : data_(data), bytes_(bytes) {}
  void Unmap();

  uint8_t* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_SEALED_MEMORY_H_
