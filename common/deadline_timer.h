// DeadlineTimer calls a function at a time unless that is cancelled before.
// It is for deadlines that are rarely reached (admission, idle streams), not
// for exact or frequent ticks.
//
// Thread-safe. Owns one thread, which runs the functions one after the other:
// they must not block. Stop() drops what is not due; the destructor stops.
//
//   const DeadlineTimer::Id id = timer.At(absl::Now() + limit, [=] { ... });
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

  Id At(absl::Time when, std::function<void()> call);

  // True when the function had not been started; it will never run. Does not
  // wait for one that runs.
  bool Cancel(Id id);

  // Waits for the function that runs; no other will. At() and Cancel() may
  // still be called. Idempotent; one caller at a time, not from a function.
  void Stop();

 private:
  void Loop();

  Mutex mu_;
  CondVar changed_;
  std::map<std::pair<absl::Time, Id>, std::function<void()>> calls_
      MR_GUARDED_BY(mu_);
  std::map<Id, absl::Time> times_ MR_GUARDED_BY(mu_);
  Id next_id_ MR_GUARDED_BY(mu_) = 1;
  bool stop_ MR_GUARDED_BY(mu_) = false;
  NamedThread thread_;  // last: it uses all of the above
};

}  // namespace millrace

#endif  // MILLRACE_COMMON_DEADLINE_TIMER_H_
