// Writes tensors as .npy files (format version 1.0: a magic string, the length
// of a header, a Python dictionary as text, the elements row-major and
// little-endian), which NumPy and others read.
//
// NumPy knows no bfloat16: its bits are written as uint16.
// In Python: torch.from_numpy(a.view(numpy.int16)).view(torch.bfloat16).

#ifndef MILLRACE_CLIENT_CLI_NPY_H_
#define MILLRACE_CLIENT_CLI_NPY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/names.h"
#include "proto/types.pb.h"

namespace millrace {

// What comes before the elements; a multiple of 64 bytes. `dtype` is a known
// one.
std::string NpyHeader(DType dtype, const std::vector<int64_t>& shape);

// `data` holds the elements.
absl::Status WriteNpy(const std::string& path, DType dtype,
                      const std::vector<int64_t>& shape,
                      absl::Span<const uint8_t> data);

// What a look at the elements says: where the NaN is.
struct TensorLook {
  uint64_t elements = 0;
  uint64_t nans = 0;
  uint64_t infinities = 0;
  // Of the others; both NaN when there are none.
  double least = 0;
  double most = 0;
  int64_t first_bad = -1;  // the first NaN or infinity, counted from 0
};
TensorLook LookAt(DType dtype, absl::Span<const uint8_t> data);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_NPY_H_
