// RunTimes is where the time of a run, or of one of its epochs, went, and what
// it took of the machine: of one rank, the evaluation and the writing of
// checkpoints not counted. It is what `millrace doctor` judges.
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
  // The host copied and transformed batches, on whatever thread; on a GPU the
  // time to queue it.
  double copy_seconds = 0;
  // The device copied and transformed batches, beside other work: of a GPU.
  double device_copy_seconds = 0;

  // Parts of the steps (step_timer.h): of the device's clock where it has one.
  double forward_seconds = 0;
  double backward_seconds = 0;  // with the waits for the other ranks in it
  double optimizer_seconds = 0;
  // Waits for other ranks: those in backward, and before each step until all
  // say that they go on.
  double allreduce_seconds = 0;
  double ranks_seconds = 0;  // of these, the latter

  double cpu_seconds = 0;  // of all threads of the process, user and system
  uint32_t cpus = 0;       // that it may use
  // Of the machine: CPU time of programs that are no rank of this run, data
  // servers included, and its CPUs, of which this process may use some. 0 CPUs:
  // the system does not say.
  double other_cpu_seconds = 0;
  uint32_t machine_cpus = 0;
  uint64_t pinned_bytes = 0;  // page-locked host memory, the most at a look
  // Share of the time in which a kernel ran. `device_busy_source`: "nvml", the
  // mean of samples a second; "step_times", the share of compute_seconds, where
  // there is no NVML, as on the CPU.
  double device_busy = 0;
  std::string device_busy_source = "step_times";
  // Why the trainer waited, as client/prefetch/verdict.h says: a word such as
  // "decoding"; of a run that of the epoch that waited longest.
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
