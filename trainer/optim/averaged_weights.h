// AveragedWeights keeps an exponential moving average of the weights (EMA): a
// copy of the weights after the first step, then average += (1 - decay) *
// (weight - average), as Python's torch.optim.swa_utils.AveragedModel with
// get_ema_multi_avg_fn. Buffers (the running statistics of normalisation
// layers) are averages already and are not averaged again.
//
// One thread. It shares the weights with the model and owns the average.
//
//   average.Update();                    // after each optimiser step
//   average.Swap();                      // the model has the average
//   evaluate(model);
//   average.Swap();                      // it has its own weights, bit for bit

#ifndef MILLRACE_TRAINER_OPTIM_AVERAGED_WEIGHTS_H_
#define MILLRACE_TRAINER_OPTIM_AVERAGED_WEIGHTS_H_

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "trainer/optim/named_tensors.h"

namespace millrace::optim {

class AveragedWeights {
 public:
  // Averages the parameters that require a gradient. 0 < decay < 1.
  AveragedWeights(double decay, const std::vector<at::Tensor>& parameters);

  // `found_inf` as for Optimizer::Step(): 1 leaves the average unchanged. Does
  // not wait for the device.
  void Update(const std::optional<at::Tensor>& found_inf = std::nullopt);

  // Exchanges the model's weights and the average. Update() must not be called
  // between two exchanges.
  void Swap();

  // updates, average_N
  NamedTensors State() const;

 private:
  const double decay_;
  bool swapped_ = false;
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> averages_;
  at::Tensor updates_;  // int64 on the CPU: calls of Update()
};

}  // namespace millrace::optim

#endif  // MILLRACE_TRAINER_OPTIM_AVERAGED_WEIGHTS_H_
