// Values of variable length in an HDF5 file: a dataset has 16 bytes for each,
// which refer to an object of a collection of the global heap. The form is that
// of the HDF5 File Format Specification 3.0, III.E, with addresses and lengths
// of 8 bytes:
//
//   reference:  u32 number of elements | u64 address | u32 object
//   collection: "GCOL" | u8 version 1 | 3 bytes | u64 bytes | objects
//   object:     u16 number | u16 count | 4 bytes | u64 bytes | the bytes, to a
//               multiple of 8; number 0: free space
//
// It opens nothing: the caller reads the file.
//
// Pure functions. No length is trusted before it is compared.
//
//   const HeapReference at = ParseHeapReference(bytes);
//   MR_ASSIGN_OR_RETURN(uint64_t offset,
//                       FindHeapValue(at, 4 * at.elements, 0, size, load));

#ifndef MILLRACE_SERVER_STORAGE_HDF5_HEAP_VALUE_H_
#define MILLRACE_SERVER_STORAGE_HDF5_HEAP_VALUE_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace millrace::storage {

inline constexpr size_t kHeapReferenceBytes = 16;

struct HeapReference {
  uint32_t elements = 0;
  uint64_t address = 0;  // from the end of the user block
  uint32_t object = 0;
};

// `bytes` has kHeapReferenceBytes.
HeapReference ParseHeapReference(absl::Span<const uint8_t> bytes);

// Fills the span with the bytes of the file from the offset on; an error: the
// file ends before them.
using LoadBytes =
    absl::FunctionRef<absl::Status(uint64_t, absl::Span<uint8_t>)>;

// The offset in the file of a value of `bytes` bytes, at least 1. `user_block`:
// bytes of the file before the superblock. `file_bytes`: its size. DataLoss:
// the heap is damaged; a part of a sentence. Errors of `load`.
absl::StatusOr<uint64_t> FindHeapValue(const HeapReference& reference,
                                       uint64_t bytes, uint64_t user_block,
                                       uint64_t file_bytes, LoadBytes load);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_HDF5_HEAP_VALUE_H_
