// SealedMap is a whole anonymous file (memfd) of another process, mapped for
// reading, whose bytes nobody can change or take away any more: its seals
// forbid it, for its maker too. So what is mapped needs to be checked once, and
// a read of it cannot raise SIGBUS.
//
// It refuses what such a file can do to its reader: holes, which would take
// memory of the reader when they are read, and files that are not in memory.
//
// Immutable, thread-safe. Owns the map and keeps no descriptor.
//
//   MR_ASSIGN_OR_RETURN(SealedMap map, SealedMap::Open(file));
//   Parse(map.data());

#ifndef MILLRACE_SERVER_STORAGE_MEMORY_SEALED_MAP_H_
#define MILLRACE_SERVER_STORAGE_MEMORY_SEALED_MAP_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace millrace::storage {

class SealedMap {
 public:
  // `file` may be closed afterwards. InvalidArgument: it is not such a file;
  // says what is missing. ResourceExhausted: the system cannot map it.
  static absl::StatusOr<SealedMap> Open(int file);

  SealedMap(SealedMap&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  SealedMap& operator=(SealedMap&&) = delete;
  ~SealedMap();

  absl::Span<const uint8_t> data() const { return {data_, bytes_}; }

 private:
  SealedMap(const uint8_t* data, uint64_t bytes) : data_(data), bytes_(bytes) {}

  const uint8_t* data_;
  uint64_t bytes_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_MEMORY_SEALED_MAP_H_
