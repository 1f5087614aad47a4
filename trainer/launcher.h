// Runs the ranks of a job on this machine: the program once for each rank,
// with the environment that torchrun would give it. The rank that fails first
// ends the others, and its name is in the error.
//
// Call it before the process has other threads. It takes over SIGINT and
// SIGTERM, which are passed on to the ranks as SIGTERM. Each rank has a process
// group of its own, so that a terminal's Ctrl-C comes to it once, from here.

#ifndef MILLRACE_TRAINER_LAUNCHER_H_
#define MILLRACE_TRAINER_LAUNCHER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace millrace {

struct LaunchOptions {
  std::vector<std::string> command;  // program and its arguments
  uint32_t ranks = 1;
  uint32_t threads_per_rank = 1;  // OMP_NUM_THREADS
  // From SIGTERM to SIGKILL: time for a checkpoint.
  absl::Duration grace = absl::Seconds(20);
};

// Returns when all ranks have ended. Internal names the rank that failed
// first; Cancelled: a signal ended the run.
absl::Status RunRanks(const LaunchOptions& options);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_LAUNCHER_H_
