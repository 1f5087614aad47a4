// Loss is what a model learns by. It takes what the model gave for a batch and
// the batch's target, and sums over the rows that hold a sample: rows that only
// fill the batch up add nothing, neither to the sum nor to a gradient.
//
// The loss of a sample is what Python's torch gives with its default
// reduction="mean" for a batch of that sample alone: of several outputs, and of
// the pixels that count, the mean. Summed losses of ranks and batches add up
// exactly.
//
// Outputs of four dimensions, [rows, channels, height, width], are compared
// pixel by pixel; others are compared with the values of the sample in a row.
//
// A file of a user's own is a TorchScript module whose forward(outputs, target)
// gives either the loss of each row, [rows], or their mean, without dimensions.
// It has no weights: nothing would train them.
//
// Not thread-safe. Runs on the outputs' device; libtorch's exceptions pass.
// TargetError is thrown of values that the loss cannot learn.
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

namespace millrace {

// The target holds values that the loss does not take: a mistake of the flags
// or the pipeline. The sentence names the value and what to do.
class TargetError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Loss {
 public:
  virtual ~Loss() = default;

  // `outputs`: [rows, ...]. `target`: as BatchReader gives it. `batch` says
  // which rows hold a sample. `label_smoothing` is a matter of cross entropy;
  // config.cc refuses it with others. The result has no dimensions.
  virtual torch::Tensor Sum(const torch::Tensor& outputs,
                            const torch::Tensor& target, const Batch& batch,
                            double label_smoothing) = 0;
};

// Of kTorchScript the file is loaded onto the device. NotFound, DataLoss: no
// such file, or none that libtorch reads. InvalidArgument: one with weights.
// `ignore_value`: values of a target of kValues that do not count.
absl::StatusOr<std::unique_ptr<Loss>> MakeLoss(
    const LossName& name, torch::Device device,
    std::optional<int64_t> ignore_value = std::nullopt);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_LOSSES_LOSS_H_
