// GradScaler prevents small gradients from becoming zero in float16: it
// multiplies the loss by a scale before the backward pass and divides the
// gradients by it afterwards. When a gradient is NaN or infinite, the step is
// skipped and the scale halved; after 2,000 steps in a row without one the
// scale is doubled. The rules and numbers are those of Python's
// torch.amp.GradScaler (Micikevicius et al., "Mixed Precision Training", 2018).
//
// All of it runs on the device; only scale() and skipped() wait for it. One
// thread. With several ranks the gradients are summed before they are checked,
// so all ranks skip the same steps.
//
//   scaler.Scale(loss).backward();
//   const at::Tensor& found_inf = scaler.Unscale(GradientsOf(parameters));
//   optimizer.Step(rate, found_inf);
//   scaler.Update();

#ifndef MILLRACE_TRAINER_OPTIM_GRAD_SCALER_H_
#define MILLRACE_TRAINER_OPTIM_GRAD_SCALER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trainer/optim/named_tensors.h"

namespace millrace::optim {

class GradScaler {
 public:
  static constexpr double kFirstScale = 65536;

  GradScaler(double first_scale, at::Device device);

  at::Tensor Scale(const at::Tensor& loss) const;

  // Divides the gradients in place. Returns a float32 on the device, valid
  // until the next call: 1 when a gradient was NaN or infinite, otherwise 0.
  const at::Tensor& Unscale(const std::vector<at::Tensor>& gradients);

  // Call after the step that Unscale() was for.
  void Update();

  // Wait for the device.
  double scale() const;
  uint64_t skipped() const;  // steps since the job's first start

  NamedTensors State() const;

 private:
  at::Tensor scale_;      // float32
  at::Tensor good_;       // int32: steps since the scale changed
  at::Tensor skipped_;    // float64
  at::Tensor found_inf_;  // float32
};

}  // namespace millrace::optim

#endif  // MILLRACE_TRAINER_OPTIM_GRAD_SCALER_H_
