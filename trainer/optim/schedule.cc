#include "trainer/optim/schedule.h"

#include <algorithm>
#include <cmath>

namespace millrace::optim {
namespace {

constexpr double kPi = 3.14159265358979323846;

}  // namespace

Schedule::Schedule(const Options& options, uint64_t steps_per_epoch,
                   uint64_t epochs)
    : options_(options),
      steps_per_epoch_(steps_per_epoch),
      total_(steps_per_epoch * epochs),
      warmup_(static_cast<uint64_t>(std::llround(
          options.warmup_epochs * static_cast<double>(steps_per_epoch)))) {}

double Schedule::LearningRate(uint64_t step) const {
  double rate = options_.lr;
  switch (options_.kind) {
    case Kind::kConstant:
      break;
    case Kind::kStep: {
      const uint64_t falls = step / steps_per_epoch_ / options_.step_epochs;
      rate = std::max(options_.min_lr,
                      options_.lr * std::pow(options_.step_gamma,
                                             static_cast<double>(falls)));
      break;
    }
    case Kind::kCosine: {
      // The ramp ends at the highest rate; the decay begins there.
      if (step < warmup_) break;
      const double part =
          total_ <= warmup_
              ? 1.0
              : std::min(1.0, static_cast<double>(step - warmup_) /
                                  static_cast<double>(total_ - warmup_));
      rate = options_.min_lr +
             (options_.lr - options_.min_lr) * (1 + std::cos(kPi * part)) / 2;
      break;
    }
  }
  if (step < warmup_) {
    rate *= static_cast<double>(step + 1) / static_cast<double>(warmup_);
  }
  return rate;
}

std::optional<Schedule::Kind> ScheduleByName(absl::string_view name) {
  if (name == "constant") return Schedule::Kind::kConstant;
  if (name == "step") return Schedule::Kind::kStep;
  if (name == "cosine") return Schedule::Kind::kCosine;
  return std::nullopt;
}

}  // namespace millrace::optim
