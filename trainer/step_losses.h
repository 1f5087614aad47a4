// StepLosses writes the file of --step_losses: a line "epoch step loss" for
// each step, during the run, so that a killed run leaves its losses. A run that
// resumes from a checkpoint continues the existing file: lines before its first
// step stay, later ones are removed because their steps are trained again.
// A pipe or a terminal is written from its first line on; for a pipe without a
// reader the next call tries again.
//
// What it is not: it sums no losses over ranks; only rank 0 has one. One
// thread. The file is not touched before the first Append().
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

namespace millrace::trainer {

class StepLosses {
 public:
  // `resumed_at`: the first step of a resumed run; absent: a new run, which
  // replaces the file.
  StepLosses(std::string path, std::optional<Position> resumed_at)
      : path_(std::move(path)), resumed_at_(resumed_at) {}
  ~StepLosses();
  StepLosses(const StepLosses&) = delete;
  StepLosses& operator=(const StepLosses&) = delete;

  // Whether the file can be continued; call it before the first step.
  // InvalidArgument: a resumed run would continue a file of another kind.
  absl::Status Check() const { return LinesOfEarlierSteps().status(); }

  // Appends the losses of the steps from `first_step` on. Lines that an error
  // (a full disk) leaves unwritten are written with the next call, also one
  // without losses.
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

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_STEP_LOSSES_H_
