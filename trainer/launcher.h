// Runs the ranks of a job on this machine: starts the program once for each
// rank, with the environment that torchrun would give it. When a rank fails,
// the launcher stops the others and returns an error that names the first one.
//
// A job on several machines has one launcher on each; the launchers share only
// the address of rank 0. Ranks of other machines end through the peer monitor
// (ddp/peer_monitor.h), not through this launcher.
//
// Call it before the process has other threads. It takes over SIGINT and
// SIGTERM and forwards them to the ranks as SIGTERM. Each rank has a process
// group of its own, so that Ctrl-C in a terminal reaches a rank only from here.

#ifndef MILLRACE_TRAINER_LAUNCHER_H_
#define MILLRACE_TRAINER_LAUNCHER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace millrace::trainer {

struct LaunchOptions {
  std::vector<std::string> command;  // program and its arguments
  uint32_t ranks = 1;                // on this machine, and on each other one
  uint32_t nodes = 1;                // machines
  uint32_t node_rank = 0;            // number of this machine, from 0
  // Address of rank 0's store, on the first machine. Empty, with one machine
  // only: a free port of the loopback.
  std::string master_address;
  uint16_t master_port = 0;
  uint32_t threads_per_rank = 1;  // OMP_NUM_THREADS; 0: inherited
  // Time between SIGTERM and SIGKILL, for a checkpoint.
  absl::Duration grace = absl::Seconds(20);
};

// Returns when all ranks have ended. Internal: a rank failed; the message names
// the first one, and before it a rank that a signal had paused. It is a
// UsageError when a rank ended with 2. Cancelled: a signal stopped the run.
absl::Status RunRanks(const LaunchOptions& options);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_LAUNCHER_H_
