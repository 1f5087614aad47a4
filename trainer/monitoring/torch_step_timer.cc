#include "trainer/monitoring/torch_step_timer.h"

#include <ATen/record_function.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/logging.h"

namespace millrace::monitoring {
namespace {

// Max steps whose events the device has not passed. A launch queue holds far
// fewer; further steps are not timed.
constexpr size_t kMaxOpenSteps = 64;

class DeviceStepTimer final : public StepTimer {
 public:
  explicit DeviceStepTimer(c10::Device device)
      : guard_(device.type()), device_(device) {}

  void BeginStep(uint64_t) override {
    Collect(/*wait=*/false);
    current_.clear();
    timing_ = works_ && open_.size() < kMaxOpenSteps;
    Mark(StepPart::kOther);
  }
  void Enter(StepPart part) override { Mark(part); }
  void EndStep() override {
    Mark(StepPart::kOther);
    if (timing_) open_.push_back(std::move(current_));
    current_.clear();
    timing_ = false;
  }
  StepTimes times() override {
    Collect(/*wait=*/false);
    return times_;
  }
  StepTimes Finish() override {
    Collect(/*wait=*/true);
    return times_;
  }

 private:
  struct Border {
    StepPart part;  // the part that begins here
    c10::Event event;
  };

  void Mark(StepPart part) {
    if (!timing_) return;
    try {
      current_.push_back({part, TakeEvent()});
      current_.back().event.record(guard_.getStream(device_));
    } catch (const std::exception& error) {
      GiveUp(error);
    }
  }

  c10::Event TakeEvent() {
    if (spare_.empty()) {
      // libtorch's default events carry no times.
      return c10::Event(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
    }
    c10::Event event = std::move(spare_.back());
    spare_.pop_back();
    return event;
  }

  void Collect(bool wait) {
    if (!works_) return;
    try {
      while (!open_.empty()) {
        std::vector<Border>& step = open_.front();
        if (wait) {
          step.back().event.synchronize();
        } else if (!step.back().event.query()) {
          return;
        }
        for (size_t i = 0; i + 1 < step.size(); ++i) {
          times_.seconds[static_cast<size_t>(step[i].part)] +=
              1e-3 * step[i].event.elapsedTime(step[i + 1].event);
        }
        ++times_.steps;
        for (Border& border : step) spare_.push_back(std::move(border.event));
        open_.pop_front();
      }
    } catch (const std::exception& error) {
      GiveUp(error);
    }
  }

  // An error of timing does not end a run.
  void GiveUp(const std::exception& error) {
    MR_LOG(WARNING) << "timing of steps is off from now on: " << error.what();
    works_ = false;
    timing_ = false;
    open_.clear();
    current_.clear();
  }

  const c10::impl::VirtualGuardImpl guard_;
  const c10::Device device_;
  StepTimes times_;
  std::vector<Border> current_;
  std::deque<std::vector<Border>> open_;
  std::vector<c10::Event> spare_;
  bool timing_ = false;
  bool works_ = true;
};

// Combines another timer's times with names in the profiler's trace.
class NamingStepTimer final : public StepTimer {
 public:
  explicit NamingStepTimer(std::unique_ptr<StepTimer> timer)
      : timer_(std::move(timer)) {}

  void BeginStep(uint64_t step) override {
    part_.reset();
    step_.reset();
    step_.emplace(at::RecordScope::USER_SCOPE);
    if (step_->isActive()) step_->before(absl::StrCat("ProfilerStep#", step));
    timer_->BeginStep(step);
  }
  void Enter(StepPart part) override {
    part_.reset();
    if (part != StepPart::kOther && step_.has_value() && step_->isActive()) {
      part_.emplace(at::RecordScope::USER_SCOPE);
      if (part_->isActive()) part_->before(NameOf(part));
    }
    timer_->Enter(part);
  }
  void EndStep() override {
    timer_->EndStep();
    part_.reset();
    step_.reset();
  }
  StepTimes times() override { return timer_->times(); }
  StepTimes Finish() override { return timer_->Finish(); }

 private:
  const std::unique_ptr<StepTimer> timer_;
  // Inner spans end first.
  std::optional<at::RecordFunction> step_;
  std::optional<at::RecordFunction> part_;
};

}  // namespace

std::unique_ptr<StepTimer> NewStepTimer(c10::Device device) {
  std::unique_ptr<StepTimer> timer;
  if (device.is_cpu()) {
    timer = std::make_unique<HostStepTimer>();
  } else {
    timer = std::make_unique<DeviceStepTimer>(device);
  }
  return std::make_unique<NamingStepTimer>(std::move(timer));
}

}  // namespace millrace::monitoring
