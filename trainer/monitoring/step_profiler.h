// StepProfiler records some steps of a run with libtorch's profiler (Kineto)
// and writes a trace for Perfetto (ui.perfetto.dev), chrome://tracing and
// TensorBoard's profiler plug-in. What it is not: active outside of these
// steps, because profiling slows a run down.
//
// One thread, the training loop's: the profiler follows it and the threads of
// its backward passes.
//
//   StepProfiler profiler({.folder = "logs/profile", .first = 5, .last = 9});
//   profiler.BeforeStep(n);           // n counts the steps of this run, from 1
//   ... the step ...
//   if (auto table = profiler.AfterStep(n)) puts(table->c_str());

#ifndef MILLRACE_TRAINER_MONITORING_STEP_PROFILER_H_
#define MILLRACE_TRAINER_MONITORING_STEP_PROFILER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace millrace::monitoring {

// "steps 5 to 9", "step 5", or "step 5, which did not end" of `last` before
// `first`.
std::string ProfiledText(uint64_t first, uint64_t last);

class StepProfiler {
 public:
  struct Options {
    // Made with the trace; empty: nothing is profiled.
    std::string folder;
    // Steps of this run, counted from 1. The first steps of a run are slower
    // than the others: memory is allocated, kernels are chosen.
    uint64_t first = 5;
    uint64_t last = 9;
    uint32_t rank = 0;  // part of the file's name
    bool cuda = false;  // also kernels and copies of the device
    size_t table_rows = 20;
  };

  explicit StepProfiler(Options options) : options_(std::move(options)) {}
  ~StepProfiler();  // discards an unfinished profile
  StepProfiler(const StepProfiler&) = delete;
  StepProfiler& operator=(const StepProfiler&) = delete;

  void BeforeStep(uint64_t step);
  // After the last recorded step: the trace's path and the table of operators.
  // A trace that cannot be recorded or written does not end the run: the error
  // is logged, and status() returns it.
  std::optional<std::string> AfterStep(uint64_t step);
  // Call after the run: writes a profile that is still open, or reports that
  // nothing was recorded.
  std::optional<std::string> AtEnd(uint64_t steps);

  // Not OK: steps were to be recorded, and no whole trace was written.
  const absl::Status& status() const { return status_; }

 private:
  std::optional<std::string> Stop(uint64_t last_step);
  // Logs the error and keeps the first one.
  void Fail(const std::string& what);

  const Options options_;
  bool running_ = false;
  bool done_ = false;
  absl::Status status_;
};

}  // namespace millrace::monitoring

#endif  // MILLRACE_TRAINER_MONITORING_STEP_PROFILER_H_
