// TorchCast() computes a TensorCast with libtorch's operations, in place, on
// any device. The bytes equal those of TensorCast::Apply(): float32, each
// operation rounded on its own, then one rounding to the result's type. It
// allocates nothing, so the streams of the caching allocator play no part. A
// cast with mean and deviation takes three passes, of which the first reads
// bytes; any other cast takes one.
//
// Pure function; queues on the current stream. Exceptions of libtorch pass
// through.
//
//   TorchCast(cast, {mean, stddev}, in, out, work);

#ifndef MILLRACE_CLIENT_TORCH_TORCH_CAST_H_
#define MILLRACE_CLIENT_TORCH_TORCH_CAST_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "proto/tensor_cast.h"

namespace millrace::device {

struct TorchCastConstants {
  // float32 in host memory, 0-dimensional: kernels take it by value.
  at::Tensor scale;
  // For a cast with a mean: [channels, 1] float32 on the device.
  at::Tensor mean;
  at::Tensor stddev;
};

TorchCastConstants MakeTorchCastConstants(const TensorCast& cast,
                                          c10::Device device);

// The shape of `in`, `out` and `work`: [samples, channels, run] with `elements`
// elements.
std::vector<int64_t> TorchCastSizes(const TensorCast& cast, uint64_t elements);

// Whether the cast needs a float32 tensor besides the result.
bool NeedsTorchCastWork(const TensorCast& cast);

// `work` may be undefined unless NeedsTorchCastWork(cast).
void TorchCast(const TensorCast& cast, const TorchCastConstants& constants,
               const at::Tensor& in, at::Tensor out, at::Tensor work);

}  // namespace millrace::device

#endif  // MILLRACE_CLIENT_TORCH_TORCH_CAST_H_
