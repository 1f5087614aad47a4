// StepLosses is the file of --step_losses: a line "epoch step loss" for each
// step, written while the run goes on, so that a run that is killed leaves what
// it has learnt. A run that goes on from a checkpoint continues the file that
// is there: the lines before its first step stay, the others are of steps that
// are trained again and go. A pipe or a terminal is written from its first
// line on; a pipe that nobody reads yet is tried again with the next call.
//
// What it is not: it sums no losses over ranks, and rank 0 alone has one. One
// thread. Nothing is touched before the first Append().
//
//   StepLosses losses("losses.txt", resumed ? position : std::nullopt);
//   MR_RETURN_IF_ERROR(losses.Append(epoch, first_step, means));

#ifndef MILLRACE_TRAINER_STEP_LOSSES_H_
#define MILLRACE_TRAINER_STEP_LOSSES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/prefetch/host_loader.h"

namespace millrace {

class StepLosses {
 public:
  // `resumed_at`: the first step of a run that goes on; absent: of a new one,
  // which replaces the file.
  StepLosses(std::string path, std::optional<Position> resumed_at)
      : path_(std::move(path)), resumed_at_(resumed_at) {}
  ~StepLosses();
  StepLosses(const StepLosses&) = delete;
  StepLosses& operator=(const StepLosses&) = delete;

  // Whether the file can be continued; before the first step. InvalidArgument:
  // a run that goes on would continue a file of another kind.
  absl::Status Check() const { return LinesOfEarlierSteps().status(); }

  // Those of the steps from `first_step` on. What an error leaves unwritten
  // (a full disk) is written with the next call, also one without losses.
  absl::Status Append(uint64_t epoch, uint64_t first_step,
                      absl::Span<const double> losses);

 private:
  absl::StatusOr<std::string> LinesOfEarlierSteps() const;
  absl::Status Begin();

  const std::string path_;
  const std::optional<Position> resumed_at_;
  int fd_ = -1;  // not open yet
  std::string pending_;
};

}  // namespace millrace

#endif  // MILLRACE_TRAINER_STEP_LOSSES_H_
