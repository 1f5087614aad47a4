#include "trainer/monitoring/step_timer.h"

namespace millrace::monitoring {

const char* NameOf(StepPart part) {
  switch (part) {
    case StepPart::kData:
      return "data";
    case StepPart::kRanks:
      return "ranks";
    case StepPart::kForward:
      return "forward";
    case StepPart::kBackward:
      return "backward";
    case StepPart::kOptimizer:
      return "optimizer";
    case StepPart::kOther:
      break;
  }
  return "other";
}

StepTimes operator-(const StepTimes& a, const StepTimes& b) {
  StepTimes difference;
  difference.steps = a.steps - b.steps;
  for (size_t part = 0; part < kStepParts; ++part) {
    difference.seconds[part] = a.seconds[part] - b.seconds[part];
  }
  return difference;
}

void HostStepTimer::EndPart() {
  const Clock::time_point now = Clock::now();
  if (in_step_) {
    times_.seconds[static_cast<size_t>(part_)] +=
        std::chrono::duration<double>(now - since_).count();
  }
  since_ = now;
}

void HostStepTimer::BeginStep(uint64_t) {
  // A step that an error ended counts up to the error.
  EndPart();
  in_step_ = true;
  part_ = StepPart::kOther;
}

void HostStepTimer::Enter(StepPart part) {
  EndPart();
  part_ = part;
}

void HostStepTimer::EndStep() {
  EndPart();
  if (in_step_) ++times_.steps;
  in_step_ = false;
}

}  // namespace millrace::monitoring
