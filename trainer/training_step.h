// TrainingStep trains on a batch: forward, loss and backward, and, with the
// last batch of a group (--accumulate), the average of the gradients over the
// ranks and the update of the weights. It keeps the losses of an epoch on the
// device, because reading one would stop the device.
//
// The gradient of a group is that of the mean loss over all valid rows of its
// batches, on all ranks, in whatever distribution.
//
// What it is not: it takes no batches and knows only the current epoch. One
// thread; all ranks make the same calls.
//
//   TrainingStep step({.model = model, .updater = updater, ...}, options);
//   step.BeginEpoch(epoch, steps_per_epoch);
//   MR_ASSIGN_OR_RETURN(bool updated, step.Run(batch));   // for each batch
//   MR_ASSIGN_OR_RETURN(auto losses, step.SumLosses(first, last));

#ifndef MILLRACE_TRAINER_TRAINING_STEP_H_
#define MILLRACE_TRAINER_TRAINING_STEP_H_

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/loader.h"
#include "trainer/batch_reader.h"
#include "trainer/ddp/communicator.h"
#include "trainer/losses/loss.h"
#include "trainer/models/model.h"
#include "trainer/monitoring/step_timer.h"
#include "trainer/optim/batch_groups.h"
#include "trainer/optim/precision.h"
#include "trainer/optim/updater.h"

namespace millrace::trainer {

class TrainingStep {
 public:
  // All must outlive the object.
  struct Parts {
    models::Classifier& model;
    losses::Loss& loss;
    optim::Updater& updater;
    ddp::Communicator& ranks;
    const BatchReader& reader;
    torch::Device device;
    monitoring::StepTimer& timer;
  };

  struct Options {
    optim::BatchGroups groups;
    uint64_t batch_size = 0;  // rows of the global batch, with padding
    optim::Precision precision;
    double label_smoothing = 0;
    uint64_t seed = 0;  // of the model's random numbers, such as dropout
  };

  TrainingStep(const Parts& parts, const Options& options)
      : parts_(parts), options_(options) {}

  void BeginEpoch(uint64_t epoch, uint64_t steps);

  // Trains on the batch. True when its group is complete: the weights have
  // changed. After an error Updater::interrupted() says whether the weights are
  // still those before the step. InvalidArgument: a label is outside of the
  // classes, or the loss cannot learn a value. FailedPrecondition: the loss is
  // NaN or infinite (only on the CPU; on a device CheckLosses() finds it); then
  // no rank has changed its weights. ResourceExhausted: the device has no
  // memory left; the message recommends a batch size. Unavailable: another rank
  // is missing.
  absl::StatusOr<bool> Run(const Batch& batch);

  // Drops the batches of an incomplete group: the model is as before the first
  // of them.
  void DropGroup();

  // FailedPrecondition: a loss of the steps [first, last) of this epoch is NaN
  // or infinite, or the loss scale has become too small. Waits for the device.
  absl::Status CheckLosses(uint64_t first, uint64_t last);
  // Position of the loss that was NaN or infinite.
  std::optional<Position> not_finite() const { return not_finite_; }

  // Learning rate of the group that the epoch's batch `step` belongs to.
  double LearningRate(uint64_t step) const {
    return parts_.updater.LearningRate(options_.groups.Number(epoch_, step));
  }

  // Mean loss of a step over this rank's valid rows, as its share of the global
  // batch. Waits for the device.
  double Loss(uint64_t step, uint64_t global_valid) const;

  // Sums over the valid rows of all ranks, for the steps [first, last) of the
  // epoch; 0 for steps that did not run. A collective call. Waits for the
  // device.
  absl::StatusOr<std::vector<double>> SumLosses(uint64_t first, uint64_t last);

 private:
  void BeginGroup();

  const Parts parts_;
  const Options options_;
  uint64_t epoch_ = 0;
  uint64_t group_batches_ = 0;  // batches of the incomplete group; 0: none
  uint64_t group_valid_ = 0;    // their valid rows, on all ranks
  // The model's buffers as they were before the group: running statistics
  // change with each forward pass, also with those of a step that fails.
  std::vector<torch::Tensor> buffers_before_;
  uint64_t max_rows_ = 0;  // of a step that succeeded
  std::optional<Position> not_finite_;
  torch::Tensor losses_;  // float64 [steps], this rank's sums, on the device
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_TRAINING_STEP_H_
