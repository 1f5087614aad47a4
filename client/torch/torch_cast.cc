#include "client/torch/torch_cast.h"

#include <ATen/ops/div.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include <utility>

#include "absl/types/span.h"

namespace millrace::device {

TorchCastConstants MakeTorchCastConstants(const TensorCast& cast,
                                          c10::Device device) {
  if (!cast.has_scale()) return {};
  at::Tensor scale = at::scalar_tensor(cast.scale(), at::kFloat);
  if (cast.mean().empty()) return {std::move(scale), {}, {}};
  auto make = [device](absl::Span<const float> values) {
    return at::tensor(at::ArrayRef<float>(values.data(), values.size()),
                      at::kFloat)
        .view({-1, 1})
        .to(device);
  };
  return {std::move(scale), make(cast.mean()), make(cast.stddev())};
}

std::vector<int64_t> TorchCastSizes(const TensorCast& cast, uint64_t elements) {
  const auto channels = static_cast<int64_t>(cast.channels());
  const auto run = static_cast<int64_t>(cast.run());
  return {static_cast<int64_t>(elements) / channels / run, channels, run};
}

bool NeedsTorchCastWork(const TensorCast& cast) {
  return !cast.mean().empty() && cast.target() != DTYPE_FLOAT32;
}

void TorchCast(const TensorCast& cast, const TorchCastConstants& constants,
               const at::Tensor& in, at::Tensor out, at::Tensor work) {
  if (!cast.has_scale()) {
    out.copy_(in, /*non_blocking=*/true);
    return;
  }
  // Kernels cast when they load and store, without a pass of its own: a byte
  // times a float32 is a float32, rounded to the type that it is stored as.
  if (cast.mean().empty()) {
    at::mul_out(out, in, constants.scale);
    return;
  }
  if (!NeedsTorchCastWork(cast)) work = out;
  at::mul_out(work, in, constants.scale);
  work.sub_(constants.mean);
  at::div_out(out, work, constants.stddev);
}

}  // namespace millrace::device
