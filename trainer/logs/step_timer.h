// StepTimer splits the steps of a training run into parts and adds up how long
// each took. What it is not: a profiler; step_profiler.h writes traces.
//
// One thread, that of the training loop. Cheap enough to be on always: a look
// at the clock, or an event on the device's stream, for each part. On a device
// with streams the times are those of the device, and nothing here waits for
// it before Finish().
//
//   timer.BeginStep(12);
//   timer.Enter(StepPart::kData);     batch = loader->Next();
//   timer.Enter(StepPart::kForward);  loss = ...;
//   timer.EndStep();
//   const StepTimes epoch = timer.Finish() - before;
//
// What lies between two steps, and in kOther, is in no part.

#ifndef MILLRACE_TRAINER_LOGS_STEP_TIMER_H_
#define MILLRACE_TRAINER_LOGS_STEP_TIMER_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace millrace {

enum class StepPart {
  kData,       // waiting for a batch
  kRanks,      // agreeing with the other ranks to go on
  kForward,    // with the loss
  kBackward,   // with the all-reduce as far as it does not overlap
  kOptimizer,  // with unscaling and clipping
  kOther,
};
inline constexpr size_t kStepParts = 6;

// "data", "ranks", "forward", "backward", "optimizer", "other".
const char* NameOf(StepPart part);

// Seconds of each part, and the steps that they were measured in.
struct StepTimes {
  uint64_t steps = 0;
  std::array<double, kStepParts> seconds = {};

  double of(StepPart part) const { return seconds[static_cast<size_t>(part)]; }
  friend StepTimes operator-(const StepTimes& a, const StepTimes& b);
};

class StepTimer {
 public:
  virtual ~StepTimer() = default;

  // `step` is the number that traces show.
  virtual void BeginStep(uint64_t step) = 0;
  // Ends the part before. A part may be entered several times in a step.
  virtual void Enter(StepPart part) = 0;
  virtual void EndStep() = 0;

  // Of the steps that are known to be over; never waits.
  virtual StepTimes times() = 0;
  // Waits until the device has come to the end of the last step.
  virtual StepTimes Finish() = 0;
};

// Times of the thread that calls it: for training on the CPU, where work is
// done when the call returns.
class HostStepTimer : public StepTimer {
 public:
  using Clock = std::chrono::steady_clock;

  void BeginStep(uint64_t step) override;
  void Enter(StepPart part) override;
  void EndStep() override;
  StepTimes times() override { return times_; }
  StepTimes Finish() override { return times_; }

 private:
  void EndPart();

  StepTimes times_;
  StepPart part_ = StepPart::kOther;
  Clock::time_point since_;
  bool in_step_ = false;
};

}  // namespace millrace

#endif  // MILLRACE_TRAINER_LOGS_STEP_TIMER_H_
