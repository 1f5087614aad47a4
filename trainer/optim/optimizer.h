// Optimizer changes weights by their gradients: SGD with momentum (Nesterov's
// or the plain one), Adam and AdamW, by the rules of Python's torch.optim. A
// step of all weights is one call of ATen's fused kernels, on the CPU and on
// CUDA, instead of a dozen small ones for each weight.
//
// What it is not: it computes no gradients, does not scale, clip or clear them.
// One thread. It shares the weights with the model; its state is its own.
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

namespace millrace {

class Optimizer {
 public:
  enum class Kind { kSgd, kAdam, kAdamW };
  struct Options {
    Kind kind = Kind::kAdam;
    // SGD. The state starts as the first gradient, as in torch.optim.
    double momentum = 0.9;
    bool nesterov = false;
    // Adam and AdamW.
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    // AdamW: times the learning rate, off the weight itself. Others: added to
    // the gradient (L2).
    double weight_decay = 0;
    // False: weights of one dimension or none (biases, and the scales of
    // normalising layers) are not decayed.
    bool decay_all = false;
  };

  // Of the parameters those that take a gradient, which must be dense. State
  // starts at zero in each weight's own layout.
  Optimizer(const Options& options, const std::vector<at::Tensor>& parameters);

  // Weights without a gradient stay as they are. `found_inf`: one float32 on
  // the weights' device, 1 when the step must not be taken (see GradScaler);
  // the device looks at it, nobody waits.
  void Step(double learning_rate,
            const std::optional<at::Tensor>& found_inf = std::nullopt);

  // momentum_N; or step, exp_avg_N and exp_avg_sq_N. N is the weight's number
  // among those that take a gradient.
  NamedTensors State() const;

 private:
  // Weights that one call can take: of one type and with one weight decay.
  struct Group {
    double weight_decay = 0;
    std::vector<size_t> members;  // numbers of weights_
  };

  const Options options_;
  std::vector<at::Tensor> weights_;
  std::vector<Group> groups_;
  std::vector<at::Tensor> first_;   // momentum, or mean of gradients
  std::vector<at::Tensor> second_;  // mean of their squares; empty with SGD
  at::Tensor step_;  // float32, Adam's count of steps; as many as were taken
};

// By the name that --optimizer takes.
std::optional<Optimizer::Kind> OptimizerByName(absl::string_view name);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_OPTIM_OPTIMIZER_H_
