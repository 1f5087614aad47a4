// RunningSince detects a pause of the whole process (SIGSTOP, a migrated
// virtual machine). After such a pause all peers seem to have been silent,
// although the process itself did not run.
//
// Pure: told the time about every `tick`, by one thread.
//
//   RunningSince running(tick, Now());
//   while (Sleep(tick)) CancelWhatIsStuckSince(running.Look(Now()));

#ifndef MILLRACE_SERVER_RPC_RUNNING_SINCE_H_
#define MILLRACE_SERVER_RPC_RUNNING_SINCE_H_

#include <chrono>

#include "common/mutex.h"

namespace millrace::rpc {

class RunningSince {
 public:
  RunningSince(SteadyTime::duration tick, SteadyTime now)
      // A busy machine is late, too, by less than this.
      : longest_(2 * tick + std::chrono::milliseconds(500)),
        last_(now),
        since_(now) {}

  // Since when the process runs without a pause.
  SteadyTime Look(SteadyTime now) {
    if (now - last_ > longest_) since_ = now;
    last_ = now;
    return since_;
  }

 private:
  const SteadyTime::duration longest_;  // between two looks
  SteadyTime last_;
  SteadyTime since_;
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_RUNNING_SINCE_H_
