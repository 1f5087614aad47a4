// TensorOp makes a tensor of fixed type of another, sample by sample. What
// changes images in place is server/augment/pixel_op.h.
//
// Immutable and thread-safe: Apply() is a pure function of (bytes, sample key);
// each thread brings its own context.
//
//   MR_RETURN_IF_ERROR(op.Apply(stored, context, absl::MakeSpan(out, n)));

#ifndef MILLRACE_SERVER_PIPELINE_STAGE_TENSOR_OP_H_
#define MILLRACE_SERVER_PIPELINE_STAGE_TENSOR_OP_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/dtype.h"
#include "proto/names.h"
#include "server/augment/pixel_op.h"

namespace millrace::pipeline {

// Of one sample; a scalar has no dimension.
struct TensorType {
  DType dtype = DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;

  uint64_t bytes() const {
    uint64_t bytes = ElementBytes(dtype);
    for (int64_t dim : shape) bytes *= static_cast<uint64_t>(dim);
    return bytes;
  }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

class TensorOp {
 public:
  virtual ~TensorOp() = default;

  virtual const TensorType& input() const = 0;
  virtual const TensorType& result() const = 0;
  // What Apply() reserves of the context's scratch.
  virtual uint64_t scratch_bytes() const = 0;

  // `in` and `out` have the sizes of the types and do not overlap. DataLoss:
  // the sample is damaged. `out` is then unspecified.
  virtual absl::Status Apply(absl::Span<const uint8_t> in,
                             const augment::OpContext& context,
                             absl::Span<uint8_t> out) const = 0;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_STAGE_TENSOR_OP_H_
