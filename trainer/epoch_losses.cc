#include "trainer/epoch_losses.h"

#include "common/logging.h"
#include "common/status_macros.h"
#include "trainer/error_text.h"

namespace millrace::trainer {

void EpochLosses::Begin(uint64_t epoch, uint64_t first, uint64_t steps) {
  epoch_ = epoch;
  global_valid_.assign(steps, 0);
  trained_ = gathered_ = first;
  total_ = 0;
}

void EpochLosses::Add(uint64_t global_valid) {
  global_valid_[trained_] = global_valid;
  ++trained_;
}

absl::Status EpochLosses::Gather(TrainingStep& step) {
  if (pending() == 0) return absl::OkStatus();  // on all ranks
  MR_ASSIGN_OR_RETURN(const std::vector<double> sums,
                      step.SumLosses(gathered_, trained_));
  std::vector<double> means;
  for (uint64_t i = 0; i < sums.size(); ++i) {
    total_ += sums[i];
    means.push_back(sums[i] /
                    static_cast<double>(global_valid_[gathered_ + i]));
  }
  const uint64_t first = std::exchange(gathered_, trained_);
  if (file_ == nullptr) return absl::OkStatus();
  if (const absl::Status written = file_->Append(epoch_, first, means);
      !written.ok()) {
    MR_LOG(ERROR) << ErrorText(written);
  }
  return absl::OkStatus();
}

absl::Status EpochLosses::Finish() {
  return file_ == nullptr ? absl::OkStatus() : file_->Append(0, 0, {});
}

}  // namespace millrace::trainer
