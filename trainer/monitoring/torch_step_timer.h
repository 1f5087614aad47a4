// The StepTimer of a libtorch device. On the CPU it reads the clock. On a
// device with streams it records an event on the current stream at each border
// and reads the time between events after the device has passed them, so that
// no step waits for the device. While a profiler runs (step_profiler.h), steps
// and parts also appear in its trace, as Python's record_function shows them:
// "ProfilerStep#12", "data", "forward", "backward", "optimizer", "ranks".
//
// One thread, whose current stream is the training's.
//
//   std::unique_ptr<StepTimer> timer = NewStepTimer(device);

#ifndef MILLRACE_TRAINER_MONITORING_TORCH_STEP_TIMER_H_
#define MILLRACE_TRAINER_MONITORING_TORCH_STEP_TIMER_H_

#include <c10/core/Device.h>

#include <memory>

#include "trainer/monitoring/step_timer.h"

namespace millrace::monitoring {

std::unique_ptr<StepTimer> NewStepTimer(c10::Device device);

}  // namespace millrace::monitoring

#endif  // MILLRACE_TRAINER_MONITORING_TORCH_STEP_TIMER_H_
