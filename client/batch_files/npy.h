// WriteNpy writes a tensor as a .npy file, which NumPy and others read (format
// version 1.0: a magic string, the length of a header, a Python dictionary as
// text, the elements row-major and little-endian).
//
// NumPy has no bfloat16, so its bits are written as uint16. In Python:
// torch.from_numpy(a.view(numpy.int16)).view(torch.bfloat16).
//
// Pure functions apart from the file; safe from any thread.
//
//   MR_RETURN_IF_ERROR(WriteNpy("image.npy", DTYPE_UINT8, {4, 28, 28}, data));

#ifndef MILLRACE_CLIENT_BATCH_FILES_NPY_H_
#define MILLRACE_CLIENT_BATCH_FILES_NPY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/names.h"
#include "proto/types.pb.h"

namespace millrace::batch_files {

// The bytes before the elements; a multiple of 64. `dtype` must be known.
std::string NpyHeader(DType dtype, const std::vector<int64_t>& shape);

// `data` holds the elements. Errors as WriteNewFile() (common/new_file.h): the
// file must not exist.
absl::Status WriteNpy(const std::string& path, DType dtype,
                      const std::vector<int64_t>& shape,
                      absl::Span<const uint8_t> data);

// Range of the elements, and their NaNs and infinities.
struct TensorLook {
  uint64_t elements = 0;
  uint64_t nans = 0;
  uint64_t infinities = 0;
  // Of the finite elements; both NaN when none is finite.
  double min = 0;
  double max = 0;
  // Index of the first NaN or infinity; -1: all elements are finite.
  int64_t first_bad = -1;
};
TensorLook LookAt(DType dtype, absl::Span<const uint8_t> data);

}  // namespace millrace::batch_files

#endif  // MILLRACE_CLIENT_BATCH_FILES_NPY_H_
