// Optimizer updates weights from their gradients: SGD with momentum (Nesterov's
// or plain), Adam and AdamW, with the rules of Python's torch.optim. A step of
// all weights is one call of ATen's fused kernels, on the CPU and on CUDA,
// instead of a dozen small calls for each weight.
//
// What it is not: it does not compute, scale, clip or clear gradients. One
// thread. It shares the weights with the model and owns its state.
//
//   Optimizer optimizer({.kind = Optimizer::Kind::kAdamW, .weight_decay = 0.1},
//                       model.parameters());
//   loss.backward();
//   optimizer.Step(schedule.LearningRate(step));

#ifndef MILLRACE_TRAINER_OPTIM_OPTIMIZER_H_
#define MILLRACE_TRAINER_OPTIM_OPTIMIZER_H_

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "trainer/optim/named_tensors.h"

namespace millrace::optim {

class Optimizer {
 public:
  enum class Kind { kSgd, kAdam, kAdamW };
  struct Options {
    Kind kind = Kind::kAdam;
    // SGD. The state starts with the first gradient, as in torch.optim.
    double momentum = 0.9;
    bool nesterov = false;
    // Adam and AdamW.
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    // AdamW: times the learning rate, subtracted from the weight itself.
    // Others: added to the gradient (L2).
    double weight_decay = 0;
    // false: weights of one dimension or none (biases, and the scales of
    // normalisation layers) are not decayed.
    bool decay_all = false;
  };

  // Optimises the parameters that require a gradient; gradients must be dense.
  // State starts at zero in each weight's own layout.
  Optimizer(const Options& options, const std::vector<at::Tensor>& parameters);

  // Weights without a gradient do not change. `found_inf`: one float32 on the
  // weights' device, 1 when the step must be skipped (see GradScaler); the
  // device reads it, and no call waits.
  void Step(double learning_rate,
            const std::optional<at::Tensor>& found_inf = std::nullopt);

  // momentum_N; or step, exp_avg_N and exp_avg_sq_N. N is the weight's number
  // among those that require a gradient.
  NamedTensors State() const;

 private:
  // Weights that one kernel call can update: of one type and one weight decay.
  struct Group {
    double weight_decay = 0;
    std::vector<size_t> members;  // indices in weights_
  };

  const Options options_;
  std::vector<at::Tensor> weights_;
  std::vector<Group> groups_;
  std::vector<at::Tensor> first_;   // momentum, or mean of gradients
  std::vector<at::Tensor> second_;  // mean of their squares; empty with SGD
  at::Tensor step_;                 // float32, Adam's count of steps taken
};

// By the name that --optimizer takes.
std::optional<Optimizer::Kind> OptimizerByName(absl::string_view name);

}  // namespace millrace::optim

#endif  // MILLRACE_TRAINER_OPTIM_OPTIMIZER_H_
