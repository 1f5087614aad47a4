// DeadlineTimer calls a function after a time unless the call is cancelled
// before. It uses the steady clock, so a change of the system's clock has no
// effect. It is for deadlines that are rarely reached (admission, idle
// streams), not for exact or frequent ticks.
//
// Thread-safe. Owns one thread, which runs the functions one after the other,
// without locks: a function that blocks delays all others. Stop() drops what is
// not due; the destructor stops.
//
//   const DeadlineTimer::Id id = timer.After(limit, [=] { ... });
//   timer.Cancel(id);

#ifndef MILLRACE_COMMON_DEADLINE_TIMER_H_
#define MILLRACE_COMMON_DEADLINE_TIMER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/thread.h"

namespace millrace {

class DeadlineTimer {
 public:
  using Id = uint64_t;  // 0 is never given

  explicit DeadlineTimer(std::string thread_name);
  DeadlineTimer(const DeadlineTimer&) = delete;
  DeadlineTimer& operator=(const DeadlineTimer&) = delete;
  ~DeadlineTimer();

  // Calls `call` once, on the timer's thread: at once when `timeout` is not
  // above 0, never when it is infinite. After Stop(): never.
  Id After(absl::Duration timeout, std::function<void()> call);

  // True when the function had not been started; it will never run. Does not
  // wait for one that runs.
  bool Cancel(Id id);

  // Waits for the function that runs; no other will. After() and Cancel() may
  // still be called. Idempotent; one caller at a time, not from a function.
  void Stop();

 private:
  void Loop();

  // Not held while a function runs or is destroyed.
  Mutex mu_;
  CondVar changed_;
  // Functions that were not started, by time and then in the order in which
  // they came; times_ has the time of each, by id. Both have the same entries.
  std::map<std::pair<SteadyTime, Id>, std::function<void()>> calls_
      MR_GUARDED_BY(mu_);
  std::map<Id, SteadyTime> times_ MR_GUARDED_BY(mu_);
  Id next_id_ MR_GUARDED_BY(mu_) = 1;
  bool stop_ MR_GUARDED_BY(mu_) = false;
  NamedThread thread_;  // last: it uses all of the above
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_DEADLINE_TIMER_H_
