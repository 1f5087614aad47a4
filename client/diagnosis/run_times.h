// RunTimes says where the time of a training run, or of one of its epochs,
// went, and what the run took of the machine. It covers one rank, without
// evaluation and without the writing of checkpoints.
//
// It is not a clock: the trainer measures, `millrace doctor` judges.
//
// Plain data, all sums; Add() joins epochs. One thread at a time.
//
//   RunTimes run;
//   run.Add(epoch);
//   puts(PartsText(run).c_str());  // "data 12 %, forward 31 %, ..."

#ifndef MILLRACE_CLIENT_DIAGNOSIS_RUN_TIMES_H_
#define MILLRACE_CLIENT_DIAGNOSIS_RUN_TIMES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "client/diagnosis/wait_verdict.h"

namespace millrace::diagnosis {

struct RunTimes {
  double seconds = 0;  // wall clock
  uint64_t steps = 0;
  uint64_t samples = 0;  // of all ranks

  double data_seconds = 0;  // the trainer waited in Next()
  // The start of the run: its first second, up to the end of the step in which
  // that second ends, and at most its first epoch. 0: not measured, or a later
  // epoch.
  double start_seconds = 0;
  double start_data_seconds = 0;  // the part of data_seconds in the start
  // The host copied and transformed batches, on any thread. For a GPU: the time
  // to queue this work.
  double copy_seconds = 0;
  // The GPU copied and transformed batches, in parallel with other work.
  double device_copy_seconds = 0;

  // Parts of the steps (trainer/monitoring/step_timer.h), by the device's clock
  // where the device has one.
  double forward_seconds = 0;
  double backward_seconds = 0;  // includes waits for the other ranks
  double optimizer_seconds = 0;
  // Waits for other ranks: in backward, and before each step until all ranks
  // agree to go on.
  double allreduce_seconds = 0;
  double ranks_seconds = 0;  // of these, the waits before each step

  double cpu_seconds = 0;  // of all threads of the process, user and system
  uint32_t cpus = 0;       // that the process may use
  // CPU time on this machine of programs that are no rank of this run, data
  // servers included.
  double other_cpu_seconds = 0;
  uint32_t machine_cpus = 0;  // of the machine; 0: not measured
  uint64_t pinned_bytes = 0;  // max of page-locked host memory
  // Share of the time in which a kernel ran. `device_busy_source` is "nvml"
  // (mean of one measurement a second) or, without NVML, "step_times" (share of
  // compute_seconds()).
  double device_busy = 0;
  std::string device_busy_source = "step_times";
  // Why the trainer waited. Of several epochs: of the one that waited longest
  // after the start. Absent before the end of the first epoch.
  std::optional<WaitCause> wait_cause;

  // Forward, backward and optimiser without the waits for other ranks.
  double compute_seconds() const;
  // 0 to 1 of `seconds`.
  double share(double part_seconds) const;
  // An amount per second.
  double rate(double amount) const;
  bool has_gpu_load() const { return device_busy_source == "nvml"; }

  void Add(const RunTimes& epoch);

 private:
  double longest_wait_ = 0;
};

// "data 12 %, forward 31 %, backward 45 %, optimiser 8 %; CPU 190 % of 400 %".
std::string PartsText(const RunTimes& times);

}  // namespace millrace::diagnosis

#endif  // MILLRACE_CLIENT_DIAGNOSIS_RUN_TIMES_H_
