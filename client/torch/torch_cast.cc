#include "client/torch/torch_cast.h"

#include <ATen/ops/tensor.h>

#include "absl/types/span.h"

namespace millrace {

TorchCastConstants MakeTorchCastConstants(const TensorCast& cast,
                                          c10::Device device) {
  if (cast.mean().empty()) return {};
  auto make = [device](absl::Span<const float> values) {
    return at::tensor(at::ArrayRef<float>(values.data(), values.size()),
                      at::kFloat)
        .view({-1, 1})
        .to(device);
  };
  return {make(cast.mean()), make(cast.stddev())};
}

std::vector<int64_t> TorchCastSizes(const TensorCast& cast, uint64_t elements) {
  const auto channels = static_cast<int64_t>(cast.channels());
  const auto run = static_cast<int64_t>(cast.run());
  return {static_cast<int64_t>(elements) / channels / run, channels, run};
}

bool NeedsTorchCastWork(const TensorCast& cast) {
  return cast.has_scale() && cast.target() != DTYPE_FLOAT32;
}

void TorchCast(const TensorCast& cast, const TorchCastConstants& constants,
               const at::Tensor& in, at::Tensor out, at::Tensor work) {
  if (!cast.has_scale()) {
    out.copy_(in, /*non_blocking=*/true);
    return;
  }
  const bool beside = NeedsTorchCastWork(cast);
  if (!beside) work = out;
  work.copy_(in, /*non_blocking=*/true);
  work.mul_(cast.scale());
  if (!cast.mean().empty()) {
    work.sub_(constants.mean).div_(constants.stddev);
  }
  if (beside) out.copy_(work, /*non_blocking=*/true);
}

}  // namespace millrace
