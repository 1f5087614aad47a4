// TrainingStep is what happens with a batch: forward, loss, backward with the
// ranks' average of the gradients, and the optimiser's step. It keeps the
// losses of an epoch on the device, where reading one back would stop it.
//
// What it is not: it takes no batches and knows no epochs but the one that it
// was told of. One thread; all ranks make the same calls.
//
//   TrainingStep step({.model = model, .optimizer = optimizer, ...});
//   step.BeginEpoch(epoch, steps_per_epoch);
//   MR_RETURN_IF_ERROR(step.Run(batch));            // for each batch
//   MR_ASSIGN_OR_RETURN(auto losses, step.SumLosses());

#ifndef MILLRACE_TRAINER_TRAINING_STEP_H_
#define MILLRACE_TRAINER_TRAINING_STEP_H_

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/loader.h"
#include "trainer/batch_reader.h"
#include "trainer/ddp/communicator.h"
#include "trainer/models/model.h"

namespace millrace {

class TrainingStep {
 public:
  // All outlive the object.
  struct Parts {
    Classifier& model;
    torch::optim::Optimizer& optimizer;
    Communicator& ranks;
    const BatchReader& reader;
    torch::Device device;
  };

  explicit TrainingStep(const Parts& parts) : parts_(parts) {}

  void BeginEpoch(uint64_t epoch, uint64_t steps);

  // Trains on the batch. InvalidArgument: a label outside of the classes.
  // FailedPrecondition: the loss is no finite number (on the CPU, where looking
  // costs nothing; elsewhere CheckLosses() finds it): the weights have not
  // taken the step then.
  absl::Status Run(const Batch& batch);

  // FailedPrecondition when a loss of the steps [first, last) of this epoch is
  // no finite number. Waits for the device.
  absl::Status CheckLosses(uint64_t first, uint64_t last);

  // Mean loss of a step over this rank's valid rows as its share of the global
  // batch. Waits for the device.
  double Loss(uint64_t step, uint64_t global_valid) const;

  // Sums over the valid rows of all ranks, one a step of the epoch; 0 of steps
  // that were not run. A collective call.
  absl::StatusOr<std::vector<double>> SumLosses();

 private:
  const Parts parts_;
  uint64_t epoch_ = 0;
  torch::Tensor losses_;  // float64 [steps], this rank's sums, on the device
};

}  // namespace millrace

#endif  // MILLRACE_TRAINER_TRAINING_STEP_H_
