#include "client/prefetch/step_window.h"

#include <algorithm>

#include "common/logging.h"

namespace millrace {

void StepWindow::Append(uint64_t count, absl::Time now) {
  for (uint64_t i = 0; i < count; ++i, ++end_) {
    Step& step = at(end_);
    step.state = State::kAsked;
    step.calls = 1;
    step.arriving = 0;
    step.avoid = 0;
    step.damaged = false;
    step.asked = now;
  }
}

StepWindow::Run StepWindow::FirstWaiting(uint64_t limit,
                                         const Sequence& sequence) {
  Run run;
  for (uint64_t number = low_; number < end_ && waiting_ > 0; ++number) {
    const Step& step = at(number);
    if (run.count == 0) {
      if (step.state != State::kWaiting) continue;
      run = {number, 1};
      limit = std::min(limit, sequence.LeftInEpoch(number));
    } else if (step.state == State::kWaiting &&
               step.avoid == at(run.first).avoid) {
      ++run.count;
    } else {
      break;
    }
    if (run.count == limit) break;
  }
  return run;
}

void StepWindow::Ask(Run run, absl::Time now) {
  for (uint64_t number = run.first; number < run.first + run.count; ++number) {
    Step& step = at(number);
    MR_CHECK(step.state != State::kWhole) << "a whole batch is asked for";
    if (step.state == State::kWaiting) {
      --waiting_;
      step.asked = now;
    }
    step.state = State::kAsked;
    ++step.calls;
  }
}

bool StepWindow::Lost(uint64_t number, ServerId failed) {
  Step& step = at(number);
  step.avoid = failed;
  if (--step.calls > 0) return false;
  step.state = State::kWaiting;
  ++waiting_;
  return true;
}

void StepWindow::MarkWhole(uint64_t number) {
  at(number).state = State::kWhole;
  while (low_ < end_ && at(low_).state == State::kWhole) ++low_;
}

}  // namespace millrace
