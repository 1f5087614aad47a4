// Checks the type and shape of a sample: foreign specs and files may contain
// any values.

#ifndef MILLRACE_SERVER_PLAN_SAMPLE_SHAPE_H_
#define MILLRACE_SERVER_PLAN_SAMPLE_SHAPE_H_

#include <cstdint>

#include "proto/dtype.h"
#include "proto/names.h"

namespace millrace::plan {

// Max bytes of one sample of one field; a larger size is treated as damage.
inline constexpr uint64_t kMaxSampleBytes = uint64_t{1} << 32;

// True: the type is known, every dimension is 1 or more, and the sample has at
// most kMaxSampleBytes. `shape` is any list of int64.
template <typename Shape>
bool ShapeIsSane(DType dtype, const Shape& shape) {
  uint64_t bytes = ElementBytes(dtype);
  if (bytes == 0) return false;
  for (int64_t dim : shape) {
    if (dim < 1 || static_cast<uint64_t>(dim) > kMaxSampleBytes / bytes) {
      return false;
    }
    bytes *= static_cast<uint64_t>(dim);
  }
  return true;
}

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_SAMPLE_SHAPE_H_
