// The losses of an epoch's steps. Each rank knows the sum over its own rows;
// EpochLosses adds the sums over all ranks, for the epoch's mean and for the
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

namespace millrace::trainer {

class EpochLosses {
 public:
  explicit EpochLosses(std::unique_ptr<StepLosses> file)
      : file_(std::move(file)) {}

  // `first`: number of the first step that this run trains.
  void Begin(uint64_t epoch, uint64_t first, uint64_t steps);

  // Call after each trained step. `global_valid`: valid rows over all ranks.
  void Add(uint64_t global_valid);

  // Steps that were trained and not gathered yet.
  uint64_t pending() const { return trained_ - gathered_; }

  // Sums the losses of the pending steps over the ranks and writes them. An
  // error of the file is logged, and the lines are written with the next call.
  absl::Status Gather(TrainingStep& step);

  // Sum of the gathered losses over the rows of all ranks.
  double total() const { return total_; }

  bool has_file() const { return file_ != nullptr; }

  // Writes the lines that earlier writes left. OK without a file.
  absl::Status Finish();

 private:
  const std::unique_ptr<StepLosses> file_;
  uint64_t epoch_ = 0;
  std::vector<uint64_t> global_valid_;  // of each step
  uint64_t trained_ = 0;                // end of the trained steps
  uint64_t gathered_ = 0;               // end of the steps in total_
  double total_ = 0;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_EPOCH_LOSSES_H_
