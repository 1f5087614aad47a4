// A tensor of a file of weights: name, type, shape, and a view of its elements
// in the file's bytes, which another object owns.
//
// Elements are little-endian. Element (i, j, ...) is at (i * strides[0] + j *
// strides[1] + ...) elements from the start of `bytes`, which ends with the
// last element. Parsers check that.

#ifndef MILLRACE_TRAINER_WEIGHTS_STORED_TENSOR_H_
#define MILLRACE_TRAINER_WEIGHTS_STORED_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/names.h"
#include "proto/types.pb.h"

namespace millrace::weights {

struct StoredTensor {
  std::string name;
  DType dtype = DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements
  absl::string_view bytes;
};

// Strides of a row-major tensor without gaps. The shape's product is below
// 2^63.
inline std::vector<int64_t> RowMajorStrides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i > 1; --i) {
    strides[i - 2] = strides[i - 1] * (shape[i - 1] > 0 ? shape[i - 1] : 1);
  }
  return strides;
}

}  // namespace millrace::weights

#endif  // MILLRACE_TRAINER_WEIGHTS_STORED_TENSOR_H_
