#include "trainer/training_step.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "trainer/out_of_memory.h"
#include "trainer/position_text.h"
#include "trainer/torch_error.h"

namespace millrace::trainer {
namespace {

// A seed that differs for every batch, epoch and rank (splitmix64's mixing,
// Steele et al., "Fast Splittable Pseudorandom Number Generators", 2014).
uint64_t StepSeed(uint64_t seed, Position position, uint32_t rank) {
  for (const uint64_t part :
       {position.epoch, position.step, static_cast<uint64_t>(rank)}) {
    seed += 0x9e3779b97f4a7c15 + part;
    seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9;
    seed = (seed ^ (seed >> 27)) * 0x94d049bb133111eb;
    seed ^= seed >> 31;
  }
  return seed;
}

// On a GPU one kernel for each type, not one for each tensor.
void CopyAll(const std::vector<torch::Tensor>& to,
             const std::vector<torch::Tensor>& from) {
  const torch::NoGradGuard no_grad;
  std::map<torch::ScalarType, std::array<std::vector<torch::Tensor>, 2>> lists;
  for (size_t i = 0; i < to.size(); ++i) {
    auto& [into, out_of] = lists[to[i].scalar_type()];
    into.push_back(to[i]);
    out_of.push_back(from[i]);
  }
  for (auto& [type, list] : lists) at::_foreach_copy_(list[0], list[1]);
}

}  // namespace

void TrainingStep::BeginEpoch(uint64_t epoch, uint64_t steps) {
  epoch_ = epoch;
  losses_ =
      at::zeros({static_cast<int64_t>(steps)},
                torch::TensorOptions(torch::kDouble).device(parts_.device));
}

void TrainingStep::BeginGroup() {
  parts_.updater.ClearGradients();
  group_valid_ = 0;
  const std::vector<torch::Tensor> buffers = parts_.model.buffers();
  if (buffers_before_.empty()) {
    for (const torch::Tensor& buffer : buffers) {
      buffers_before_.push_back(at::empty_like(buffer));
    }
  }
  CopyAll(buffers_before_, buffers);
}

void TrainingStep::DropGroup() {
  if (group_batches_ == 0) return;
  group_batches_ = 0;
  parts_.updater.ClearGradients();
  CopyAll(parts_.model.buffers(), buffers_before_);
}

absl::StatusOr<bool> TrainingStep::Run(const Batch& batch) {
  const uint64_t step = batch.position.step;
  const optim::BatchGroups& groups = options_.groups;
  const bool last = groups.EndsAt(step);
  try {
    parts_.timer.Enter(monitoring::StepPart::kForward);
    if (group_batches_ == 0) BeginGroup();
    ++group_batches_;
    group_valid_ += batch.global_valid;
    // Random numbers of a batch depend on its position alone, also after a
    // resume.
    at::manual_seed(
        StepSeed(options_.seed, batch.position, parts_.ranks.rank()));
    if (last) parts_.ranks.BeforeForward();
    const torch::Tensor logits = options_.precision.Run(
        [&] { return parts_.model.forward(parts_.reader.Input(batch)); });
    const torch::Tensor sum = parts_.loss.Sum(
        logits, parts_.reader.Target(batch), batch, options_.label_smoothing);
    {
      const torch::NoGradGuard no_grad;
      losses_.select(0, static_cast<int64_t>(step)).copy_(sum);
    }
    if (parts_.device.is_cpu()) {
      // Before the weights change, and before this rank's gradients reach the
      // others: the checkpoint holds good weights.
      MR_RETURN_IF_ERROR(CheckLosses(step, step + 1));
    }
    // The Reducer averages over ranks, so this becomes the mean over the valid
    // rows of the group. Their number is known at the end of the group: until
    // then all rows of a group of several batches count as valid.
    const uint64_t size = groups.SizeAt(step);
    const uint64_t rows =
        size == 1 ? batch.global_valid : size * options_.batch_size;
    const torch::Tensor loss =
        sum * (static_cast<double>(parts_.ranks.world_size()) /
               static_cast<double>(rows));
    // Without prepare_for_backward() the Reducer lets gradients accumulate on
    // each rank.
    if (last) parts_.ranks.BeforeBackward();
    parts_.timer.Enter(monitoring::StepPart::kBackward);
    parts_.updater.Scale(loss).backward();
    parts_.ranks.AfterBackward();
    parts_.timer.Enter(monitoring::StepPart::kOther);
    max_rows_ = std::max(max_rows_, batch.rows);
    if (!last) return false;
    if (group_valid_ == 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "no row of the ", size, " batches up to ", At(batch.position),
          " is valid; check the dataset's damaged samples with `millrace-data "
          "verify`"));
    }
    parts_.timer.Enter(monitoring::StepPart::kOptimizer);
    parts_.updater.Step(
        groups.Number(epoch_, step),
        static_cast<double>(rows) / static_cast<double>(group_valid_));
    parts_.timer.Enter(monitoring::StepPart::kOther);
    group_batches_ = 0;
    return true;
  } catch (const LabelOutsideClasses& error) {
    return parts_.reader.LabelError(
        error, absl::StrCat("training at ", At(batch.position)));
  } catch (const losses::TargetError& error) {
    return UsageError(absl::InvalidArgumentError(
        absl::StrCat("training at ", At(batch.position), ": ", error.what())));
  } catch (const c10::OutOfMemoryError& error) {
    return OutOfMemory(error, absl::StrCat("training at ", At(batch.position)),
                       parts_.device, batch.rows, parts_.ranks.world_size(),
                       /*ran_before=*/batch.rows <= max_rows_);
  } catch (const std::exception& error) {
    // The messages of TorchScript's interpreter and CUDA's libraries.
    const absl::string_view text = error.what();
    if (!parts_.device.is_cpu() && (absl::StrContains(text, "out of memory") ||
                                    absl::StrContains(text, "_ALLOC_FAILED"))) {
      return OutOfMemory(error,
                         absl::StrCat("training at ", At(batch.position)),
                         parts_.device, batch.rows, parts_.ranks.world_size(),
                         /*ran_before=*/batch.rows <= max_rows_);
    }
    return parts_.ranks.Explain(
        FromTorch(error, absl::StrCat("rank ", parts_.ranks.rank(),
                                      ", training at ", At(batch.position))));
  }
}

absl::Status TrainingStep::CheckLosses(uint64_t first, uint64_t last) {
  const torch::Tensor values =
      losses_.slice(0, static_cast<int64_t>(first), static_cast<int64_t>(last))
          .cpu();
  const auto* loss = values.data_ptr<double>();
  for (uint64_t i = 0; i < last - first; ++i) {
    if (std::isfinite(loss[i])) continue;
    not_finite_ = Position{epoch_, first + i};
    return absl::FailedPreconditionError(absl::StrCat(
        "the loss is ", loss[i], " at ", At(*not_finite_), " (rank ",
        parts_.ranks.rank(), "); lower --lr, or inspect the batch"));
  }
  return parts_.updater.CheckScale();
}

double TrainingStep::Loss(uint64_t step, uint64_t global_valid) const {
  return losses_.select(0, static_cast<int64_t>(step)).item<double>() *
         parts_.ranks.world_size() / static_cast<double>(global_valid);
}

absl::StatusOr<std::vector<double>> TrainingStep::SumLosses(uint64_t first,
                                                            uint64_t last) {
  // A copy: Loss() reads this rank's own sums again.
  torch::Tensor sums =
      losses_.slice(0, static_cast<int64_t>(first), static_cast<int64_t>(last))
          .cpu()
          .clone();
  MR_RETURN_IF_ERROR(parts_.ranks.Sum(sums));
  const auto* sum = sums.data_ptr<double>();
  return std::vector<double>(sum, sum + sums.numel());
}

}  // namespace millrace::trainer
