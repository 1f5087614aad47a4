// TensorCast in libtorch's operations, in place: what a device computes. The
// same bytes as TensorCast::Apply(): float32, each operation rounded on its
// own, then one rounding to the result's type. Nothing is allocated, so the
// caching allocator's streams play no part. Three passes for a mean and a
// deviation, the first of which reads bytes; one for all else.
//
// Pure function; queues on the current stream. libtorch's exceptions pass.
//
//   TorchCast(cast, {mean, stddev}, in, out, work);

#ifndef MILLRACE_CLIENT_TORCH_TORCH_CAST_H_
#define MILLRACE_CLIENT_TORCH_TORCH_CAST_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "proto/tensor_cast.h"

namespace millrace {

struct TorchCastConstants {
  // float32 in host memory, without a dimension: kernels take it by value.
  at::Tensor scale;
  // Of a cast with a mean, [channels, 1] float32 on the device.
  at::Tensor mean;
  at::Tensor stddev;
};

TorchCastConstants MakeTorchCastConstants(const TensorCast& cast,
                                          c10::Device device);

// [samples, channels, run] of so many elements: how `in`, `out` and `work` are
// seen.
std::vector<int64_t> TorchCastSizes(const TensorCast& cast, uint64_t elements);

// True when a float32 tensor is needed beside the result.
bool NeedsTorchCastWork(const TensorCast& cast);

// `work` is used when it is needed, and may be undefined otherwise.
void TorchCast(const TensorCast& cast, const TorchCastConstants& constants,
               const at::Tensor& in, at::Tensor out, at::Tensor work);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_TORCH_TORCH_CAST_H_
