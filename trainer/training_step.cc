#include "trainer/training_step.h"

#include <ATen/Functions.h>

#include <cmath>
#include <exception>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "trainer/class_loss.h"
#include "trainer/position_text.h"
#include "trainer/torch_error.h"

namespace millrace {

void TrainingStep::BeginEpoch(uint64_t epoch, uint64_t steps) {
  epoch_ = epoch;
  losses_ =
      at::zeros({static_cast<int64_t>(steps)},
                torch::TensorOptions(torch::kDouble).device(parts_.device));
}

absl::Status TrainingStep::Run(const Batch& batch) {
  try {
    parts_.optimizer.zero_grad();
    parts_.ranks.BeforeForward();
    torch::Tensor logits = parts_.model.forward(parts_.reader.Input(batch));
    torch::Tensor sum =
        SumOfLosses(logits, Masked(parts_.reader.Target(batch), batch));
    // The Reducer averages over ranks, so this becomes the mean over the valid
    // rows of the global batch, however they are spread.
    torch::Tensor loss = sum * (static_cast<double>(parts_.ranks.world_size()) /
                                static_cast<double>(batch.global_valid));
    parts_.ranks.BeforeBackward();
    loss.backward();
    {
      torch::NoGradGuard no_grad;
      losses_.select(0, static_cast<int64_t>(batch.position.step)).copy_(sum);
    }
    if (parts_.device.is_cpu()) {
      // Before the weights are touched: the checkpoint is of a good model.
      MR_RETURN_IF_ERROR(
          CheckLosses(batch.position.step, batch.position.step + 1));
    }
    parts_.optimizer.step();
  } catch (const c10::IndexError& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("training at ", At(batch.position), ": ",
                     error.what_without_backtrace(),
                     "; a label of the data lies outside its ",
                     parts_.reader.classes(), " classes"));
  } catch (const std::exception& error) {
    return FromTorch(error, absl::StrCat("rank ", parts_.ranks.rank(),
                                         ", training at ", At(batch.position)));
  }
  return absl::OkStatus();
}

absl::Status TrainingStep::CheckLosses(uint64_t first, uint64_t last) {
  const torch::Tensor values =
      losses_.slice(0, static_cast<int64_t>(first), static_cast<int64_t>(last))
          .cpu();
  const auto* loss = values.data_ptr<double>();
  for (uint64_t i = 0; i < last - first; ++i) {
    if (std::isfinite(loss[i])) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the loss is ", loss[i], " at ", At({epoch_, first + i}), " (rank ",
        parts_.ranks.rank(),
        "); lower --lr, or look at the batch: millrace replay --position=",
        epoch_, ":", first + i, " --rank=", parts_.ranks.rank(),
        " --world=", parts_.ranks.world_size(),
        ", with the flags of this run or --run=ITS_AUDIT_LOG"));
  }
  return absl::OkStatus();
}

double TrainingStep::Loss(uint64_t step, uint64_t global_valid) const {
  return losses_.select(0, static_cast<int64_t>(step)).item<double>() *
         parts_.ranks.world_size() / static_cast<double>(global_valid);
}

absl::StatusOr<std::vector<double>> TrainingStep::SumLosses() {
  torch::Tensor sums = losses_.cpu();
  MR_RETURN_IF_ERROR(parts_.ranks.Sum(sums));
  const auto* sum = sums.data_ptr<double>();
  return std::vector<double>(sum, sum + sums.numel());
}

}  // namespace millrace
