// Runs the forward pass in the precision of --precision: libtorch's autocast,
// the code behind Python's torch.autocast. Weights stay float32; matrix
// products and convolutions compute in the lower type, and operations that need
// the range (softmax, sums, norms) in float32.
//
// Immutable; calls on one thread. libtorch's exceptions pass.
//
//   const Precision precision(at::kBFloat16, device.type());
//   const at::Tensor logits =
//       precision.Run([&] { return model.forward(images); });

#ifndef MILLRACE_TRAINER_OPTIM_PRECISION_H_
#define MILLRACE_TRAINER_OPTIM_PRECISION_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>

#include "absl/strings/string_view.h"

namespace millrace::optim {

class Precision {
 public:
  // float32: no conversion.
  Precision() = default;
  Precision(at::ScalarType type, at::DeviceType device)
      : type_(type), device_(device) {}

  // The result of `forward`, converted to float32 from a lower type: losses and
  // accuracies are computed in float32.
  at::Tensor Run(const std::function<at::Tensor()>& forward) const;

 private:
  at::ScalarType type_ = at::kFloat;
  at::DeviceType device_ = at::kCPU;
};

// By the name that --precision takes.
std::optional<Precision> PrecisionByName(absl::string_view name,
                                         at::DeviceType device);

}  // namespace millrace::optim

#endif  // MILLRACE_TRAINER_OPTIM_PRECISION_H_
