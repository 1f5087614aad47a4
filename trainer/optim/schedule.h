// Schedule computes the learning rate of every optimiser step. It depends only
// on the step's number, so a run that is resumed in the middle of an epoch
// continues with the same rates.
//
// With W = warmup_epochs * steps_per_epoch (rounded) and T = epochs *
// steps_per_epoch, at step s, counted from 0 over all epochs:
//   warm-up    lr * (s + 1) / W                           for s < W
//   constant   lr
//   step       max(min_lr, lr * gamma^floor(epoch of s / step_epochs))
//   cosine     min_lr + (lr - min_lr) * (1 + cos(pi * (s - W) / (T - W))) / 2
//              (Loshchilov and Hutter, "SGDR", 2016, without restarts)
// Epochs of `step` are counted from the start, warm-up included; during warm-up
// the ramp is multiplied with the rate of `step`.
//
// Immutable; any thread. No libtorch.
//
//   const Schedule schedule({.kind = Schedule::Kind::kCosine, .lr = 0.1},
//                           steps_per_epoch, epochs);
//   optimizer.Step(schedule.LearningRate(step));

#ifndef MILLRACE_TRAINER_OPTIM_SCHEDULE_H_
#define MILLRACE_TRAINER_OPTIM_SCHEDULE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace millrace::optim {

class Schedule {
 public:
  enum class Kind { kConstant, kStep, kCosine };
  struct Options {
    Kind kind = Kind::kConstant;
    double lr = 1e-3;  // the highest
    double min_lr = 0;
    uint64_t step_epochs = 30;
    double step_gamma = 0.1;
    double warmup_epochs = 0;
  };

  // `steps_per_epoch`: optimiser steps, above 0.
  Schedule(const Options& options, uint64_t steps_per_epoch, uint64_t epochs);

  // After the last step of the last epoch: the rate at that step's end.
  double LearningRate(uint64_t step) const;

 private:
  const Options options_;
  const uint64_t steps_per_epoch_;
  const uint64_t total_;
  const uint64_t warmup_;
};

// By the name that --schedule takes.
std::optional<Schedule::Kind> ScheduleByName(absl::string_view name);

}  // namespace millrace::optim

#endif  // MILLRACE_TRAINER_OPTIM_SCHEDULE_H_
