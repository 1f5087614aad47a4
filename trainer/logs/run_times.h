// RunTimes breaks down the time of a run, or of one of its epochs, and its use
// of the machine: for one rank, without evaluation and the writing of
// checkpoints. `millrace doctor` diagnoses from it.
//
// Plain data, sums; Add() joins epochs.
//
//   RunTimes run;
//   run.Add(epoch);
//   json = ToJson(run);  // an object, its keys are below

#ifndef MILLRACE_TRAINER_LOGS_RUN_TIMES_H_
#define MILLRACE_TRAINER_LOGS_RUN_TIMES_H_

#include <cstdint>
#include <optional>
#include <string>

namespace millrace {

struct RunTimes {
  double seconds = 0;  // of the clock
  uint64_t steps = 0;
  uint64_t samples = 0;  // of all ranks

  double data_seconds = 0;  // the trainer waited in Next()
  // The host copied and transformed batches, on any thread; with a GPU the time
  // to queue that work.
  double copy_seconds = 0;
  // A GPU copied and transformed batches, concurrently with other work.
  double device_copy_seconds = 0;

  // Parts of the steps (step_timer.h), on the device's clock if it has one.
  double forward_seconds = 0;
  double backward_seconds = 0;  // including the waits for other ranks
  double optimizer_seconds = 0;
  // Waits for other ranks: in backward, and before each step until all agree to
  // continue.
  double allreduce_seconds = 0;
  double ranks_seconds = 0;  // the part before each step

  double cpu_seconds = 0;  // of all threads of the process, user and system
  uint32_t cpus = 0;       // CPUs that the process may use
  // CPU time of programs on the machine that are no rank of this run, data
  // servers included, and the machine's CPUs, of which this process may use
  // some. 0 CPUs: unknown.
  double other_cpu_seconds = 0;
  uint32_t machine_cpus = 0;
  uint64_t pinned_bytes = 0;  // page-locked host memory, max of all looks
  // Share of the time in which a kernel ran. `device_busy_source`: "nvml", the
  // mean of samples taken every second; "step_times", the share of
  // compute_seconds, without NVML, as on the CPU.
  double device_busy = 0;
  std::string device_busy_source = "step_times";
  // Why the trainer waited, as in client/prefetch/verdict.h: a word such as
  // "decoding". For a run, the cause of the epoch that waited longest.
  std::string wait_cause;

  // Forward, backward and optimiser without the waits for other ranks.
  double compute_seconds() const;
  double share(double part) const { return seconds > 0 ? part / seconds : 0; }

  void Add(const RunTimes& epoch);

 private:
  double longest_wait_ = 0;
};

// {"seconds": ..., "data_seconds": ..., "data_share": ..., ...}: one line.
std::string ToJson(const RunTimes& times);

// "forward 31 %, backward 45 %, optimiser 8 %, data 12 %, CPU 190 %".
std::string PartsText(const RunTimes& times);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_LOGS_RUN_TIMES_H_
