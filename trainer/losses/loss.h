// Loss computes a model's loss from its outputs for a batch and the batch's
// target, summed over the rows that hold a sample. Rows that only pad the batch
// add nothing, neither to the sum nor to a gradient.
//
// The loss of a sample equals Python's torch with the default reduction="mean"
// for a batch of that sample alone: the mean over several outputs and over the
// counting pixels. So the losses of ranks and batches add up exactly.
//
// Outputs of four dimensions, [rows, channels, height, width], are compared
// pixel by pixel; other outputs are compared with the flattened values of the
// sample.
//
// A user's file is a TorchScript module whose forward(outputs, target) returns
// either the loss of each row, [rows], or their mean, without dimensions. It
// has no weights, because nothing would train them.
//
// Not thread-safe. Runs on the outputs' device; libtorch's exceptions pass.
// Throws TargetError for values that the loss cannot learn.
//
//   MR_ASSIGN_OR_RETURN(auto loss, MakeLoss(name, device));
//   torch::Tensor sum = loss->Sum(model->forward(images), target, batch, 0);

#ifndef MILLRACE_TRAINER_LOSSES_LOSS_H_
#define MILLRACE_TRAINER_LOSSES_LOSS_H_

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>

#include "absl/status/statusor.h"
#include "client/loader.h"
#include "trainer/losses/loss_kind.h"

namespace millrace::losses {

// The target holds values that the loss does not accept: a mistake in the flags
// or the pipeline. The message names the value and what to do.
class TargetError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Loss {
 public:
  virtual ~Loss() = default;

  // `outputs`: [rows, ...]. `target`: as BatchReader returns it. `batch` tells
  // which rows hold a sample. `label_smoothing` applies to cross entropy;
  // config.cc refuses it with other losses. The result has no dimensions.
  virtual torch::Tensor Sum(const torch::Tensor& outputs,
                            const torch::Tensor& target, const Batch& batch,
                            double label_smoothing) = 0;
};

// kTorchScript: the file is loaded onto the device. NotFound, DataLoss: no such
// file, or one that libtorch cannot read. InvalidArgument: the file has
// weights. `ignore_value`: values of a target of kValues that do not count.
absl::StatusOr<std::unique_ptr<Loss>> MakeLoss(
    const LossName& name, torch::Device device,
    std::optional<int64_t> ignore_value = std::nullopt);

}  // namespace millrace::losses

#endif  // MILLRACE_TRAINER_LOSSES_LOSS_H_
