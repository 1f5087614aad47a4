// The losses of an epoch's steps: each rank knows the sum over its own rows,
// EpochLosses adds them up over all ranks, for the epoch's mean and for the
// file of --step_losses.
//
// One thread. Gather() is a collective call; the rest is local.
//
//   EpochLosses losses(std::move(file));  // null: no file, or not rank 0
//   losses.Begin(epoch, /*first=*/0, steps);
//   losses.Add(batch->global_valid);      // after each step
//   MR_RETURN_IF_ERROR(losses.Gather(step));
//   losses.total() / samples;

#ifndef MILLRACE_TRAINER_EPOCH_LOSSES_H_
#define MILLRACE_TRAINER_EPOCH_LOSSES_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "trainer/step_losses.h"
#include "trainer/training_step.h"

namespace millrace {

class EpochLosses {
 public:
  explicit EpochLosses(std::unique_ptr<StepLosses> file)
      : file_(std::move(file)) {}

  // `first`: the step that is trained first.
  void Begin(uint64_t epoch, uint64_t first, uint64_t steps);

  // The next step is trained; all ranks together had so many valid rows.
  void Add(uint64_t global_valid);

  // Steps that were trained and are not gathered yet.
  uint64_t pending() const { return trained_ - gathered_; }

  // Sums the losses of the pending steps over the ranks and writes them. An
  // error of the file is logged: what a full disk leaves is written later.
  absl::Status Gather(TrainingStep& step);

  // Of the steps that are gathered: the sum over the rows of all ranks.
  double total() const { return total_; }

  bool has_file() const { return file_ != nullptr; }

  // Writes what earlier writes have left. OK without a file.
  absl::Status Finish();

 private:
  const std::unique_ptr<StepLosses> file_;
  uint64_t epoch_ = 0;
  std::vector<uint64_t> global_valid_;  // of each step
  uint64_t trained_ = 0;                // steps that were trained end here
  uint64_t gathered_ = 0;               // and those that are in total_ here
  double total_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_TRAINER_EPOCH_LOSSES_H_
