// StepTimer splits the steps of a training run into parts and sums the time of
// each. What it is not: a profiler; step_profiler.h writes traces.
//
// One thread, the training loop's. Cheap enough to be always on: it reads the
// clock, or records an event on the device's stream, for each part. On a device
// with streams the times are the device's, and only Finish() waits for it.
//
//   timer.BeginStep(12);
//   timer.Enter(StepPart::kData);     batch = loader->Next();
//   timer.Enter(StepPart::kForward);  loss = ...;
//   timer.EndStep();
//   const StepTimes epoch = timer.Finish() - before;
//
// Time between two steps, and in kOther, belongs to no part.

#ifndef MILLRACE_TRAINER_MONITORING_STEP_TIMER_H_
#define MILLRACE_TRAINER_MONITORING_STEP_TIMER_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace millrace::monitoring {

enum class StepPart {
  kData,       // waiting for a batch
  kRanks,      // agreeing with the other ranks to continue
  kForward,    // with the loss
  kBackward,   // with the part of the all-reduce that does not overlap
  kOptimizer,  // with unscaling and clipping
  kOther,
};
inline constexpr size_t kStepParts = 6;

// "data", "ranks", "forward", "backward", "optimizer", "other".
const char* NameOf(StepPart part);

// Seconds of each part, and the number of steps that were measured.
struct StepTimes {
  uint64_t steps = 0;
  std::array<double, kStepParts> seconds = {};

  double of(StepPart part) const { return seconds[static_cast<size_t>(part)]; }
  friend StepTimes operator-(const StepTimes& a, const StepTimes& b);
};

class StepTimer {
 public:
  virtual ~StepTimer() = default;

  // `step`: the step's number in traces.
  virtual void BeginStep(uint64_t step) = 0;
  // Ends the previous part. A step may enter a part several times.
  virtual void Enter(StepPart part) = 0;
  virtual void EndStep() = 0;

  // Times of the steps that are known to have finished; never waits.
  virtual StepTimes times() = 0;
  // Waits until the device has finished the last step.
  virtual StepTimes Finish() = 0;
};

// Times of the calling thread: for training on the CPU, where a call returns
// after its work is done.
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

}  // namespace millrace::monitoring

#endif  // MILLRACE_TRAINER_MONITORING_STEP_TIMER_H_
