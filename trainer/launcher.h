// Runs the ranks of a job on this machine: the program once for each rank,
// with the environment that torchrun would give it. The rank that fails first
// ends the others, and its name is in the error. A job of several machines has
// a launcher on each, and no more in common than the address of rank 0: a
// machine whose ranks fail ends those of the others through ddp/roll_call.h.
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
  uint32_t ranks = 1;                // on this machine, and on each other one
  uint32_t nodes = 1;                // machines
  uint32_t node_rank = 0;            // which one this is
  // Where the ranks meet, on the first machine. One machine: may be empty, a
  // free port of the loopback is taken.
  std::string master_address;
  uint16_t master_port = 0;
  uint32_t threads_per_rank = 1;  // OMP_NUM_THREADS; 0: as it is set here
  // From SIGTERM to SIGKILL: time for a checkpoint.
  absl::Duration grace = absl::Seconds(20);
};

// Returns when all ranks have ended. Internal names the rank that failed
// first, and is a UsageError when a rank ended with 2; Cancelled: a signal
// ended the run.
absl::Status RunRanks(const LaunchOptions& options);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_LAUNCHER_H_
