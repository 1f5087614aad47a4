// RunningTime counts the time in which the process could run. It does not count
// a pause of the whole process (SIGSTOP, a debugger, a migrated virtual
// machine), and not the delay of a check that a busy or throttled machine
// causes.
//
// Pure: told the time about every `tick`, by one thread.
//
//   RunningTime running(tick, Now());
//   while (Sleep(tick)) if (running.Look(Now()) > deadline) ...

#ifndef MILLRACE_SERVER_RPC_RUNNING_TIME_H_
#define MILLRACE_SERVER_RPC_RUNNING_TIME_H_

#include <algorithm>

#include "common/mutex.h"

namespace millrace::rpc {

class RunningTime {
 public:
  RunningTime(SteadyTime::duration tick, SteadyTime now)
      : tick_(tick), last_(now) {}

  // The time that counted since the construction.
  SteadyTime::duration Look(SteadyTime now) {
    sum_ += std::min(now - last_, tick_);
    last_ = now;
    return sum_;
  }

 private:
  const SteadyTime::duration tick_;
  SteadyTime last_;
  SteadyTime::duration sum_{0};
};

}  // namespace millrace::rpc

#endif  // MILLRACE_SERVER_RPC_RUNNING_TIME_H_
