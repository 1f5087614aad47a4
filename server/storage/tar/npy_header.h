// The header of a NumPy array in a file (.npy): type and shape of its elements.
//
// Pure function, safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(bytes));
//   Use(bytes.subspan(header.data_offset));

#ifndef MILLRACE_SERVER_STORAGE_TAR_NPY_HEADER_H_
#define MILLRACE_SERVER_STORAGE_TAR_NPY_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/names.h"
#include "proto/types.pb.h"

namespace millrace::storage {

struct NpyHeader {
  DType dtype = DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  size_t data_offset = 0;
};

// DataLoss: the bytes are no .npy file, or end within its header.
// Unimplemented: elements of another type or byte order, or in Fortran's order.
// Messages are ends of sentences: "is no NumPy array".
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::Span<const uint8_t> bytes);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_TAR_NPY_HEADER_H_
