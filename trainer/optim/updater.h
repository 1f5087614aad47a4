// Updater updates the weights from the gradients of a group of batches: it
// unscales them, divides them to the mean, clips them, takes the optimiser's
// step at the schedule's learning rate, and updates the average of the weights.
//
// What it is not: it computes no gradients and sums none over ranks. One
// thread. The model owns the weights, the updater everything else; State() is
// the state for a checkpoint.
//
//   Updater updater(UpdaterOptions(config, groups), parameters, device);
//   updater.ClearGradients();
//   updater.Scale(loss).backward();
//   updater.Step(number, /*factor=*/1);

#ifndef MILLRACE_TRAINER_OPTIM_UPDATER_H_
#define MILLRACE_TRAINER_OPTIM_UPDATER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "trainer/config.h"
#include "trainer/optim/averaged_weights.h"
#include "trainer/optim/batch_groups.h"
#include "trainer/optim/grad_scaler.h"
#include "trainer/optim/named_tensors.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/schedule.h"

namespace millrace::optim {

class Updater {
 public:
  struct Options {
    Optimizer::Options optimizer;
    Schedule schedule;
    double clip_grad_norm = 0;  // 0: no clipping
    double ema = 0;             // 0: no average
    // Absent: gradients are not scaled.
    std::optional<double> first_loss_scale;
  };

  Updater(const Options& options, std::vector<at::Tensor> parameters,
          at::Device device);

  // The loss for backward().
  at::Tensor Scale(const at::Tensor& loss) const;

  void ClearGradients();

  // Takes optimiser step `number`, counted from 0 since the job's first start.
  // `factor` converts the gradients to those of the mean.
  void Step(uint64_t number, double factor);

  // A Step() failed after it began to change the weights: weights and State()
  // are neither those before the step nor those after it.
  bool interrupted() const { return interrupted_; }

  // Learning rate of a step.
  double LearningRate(uint64_t number) const {
    return options_.schedule.LearningRate(number);
  }

  // FailedPrecondition: so many steps were skipped that almost nothing is left
  // of the loss scale; the gradients are NaN or infinite for another reason.
  // Waits for the device when there is a scaler.
  absl::Status CheckScale() const;

  // Null: gradients are not scaled.
  const GradScaler* scaler() const {
    return scaler_.has_value() ? &*scaler_ : nullptr;
  }
  AveragedWeights* average() {
    return average_.has_value() ? &*average_ : nullptr;
  }

  // optimizer, and scaler and average if they exist.
  NamedParts State() const;

 private:
  const Options options_;
  const std::vector<at::Tensor> parameters_;
  Optimizer optimizer_;
  std::optional<GradScaler> scaler_;
  std::optional<AveragedWeights> average_;
  bool interrupted_ = false;
};

// The options that the flags set. `config` is valid.
Updater::Options UpdaterOptions(const trainer::TrainerConfig& config,
                                const BatchGroups& groups);

}  // namespace millrace::optim

#endif  // MILLRACE_TRAINER_OPTIM_UPDATER_H_
