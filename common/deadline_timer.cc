#include "common/deadline_timer.h"

#include <chrono>

namespace millrace {

DeadlineTimer::DeadlineTimer(std::string thread_name)
    : thread_(std::move(thread_name), [this] { Loop(); }) {}

DeadlineTimer::~DeadlineTimer() { Stop(); }

void DeadlineTimer::Stop() {
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  changed_.NotifyAll();
  // The function that runs ends first. What is left stays in calls_ until the
  // timer is destroyed, or is cancelled.
  thread_.Join();
}

DeadlineTimer::Id DeadlineTimer::After(absl::Duration timeout,
                                       std::function<void()> call) {
  const SteadyTime when = SteadyDeadline(timeout);
  Id id;
  bool first;
  {
    MutexLock lock(mu_);
    id = next_id_++;
    times_.emplace(id, when);
    const auto at = calls_.emplace(std::pair(when, id), std::move(call)).first;
    first = at == calls_.begin();
  }
  // The thread sleeps until the first function is due: only a new first one
  // changes that.
  if (first) changed_.NotifyAll();
  return id;
}

bool DeadlineTimer::Cancel(Id id) {
  // Declared before the lock: what the function holds is destroyed after it.
  std::function<void()> dropped;
  MutexLock lock(mu_);
  const auto time = times_.find(id);
  // The function runs, has run, or was never added.
  if (time == times_.end()) return false;
  const auto call = calls_.find(std::pair(time->second, id));
  // The thread is not woken: it finds that nothing is due and sleeps on.
  dropped = std::move(call->second);
  calls_.erase(call);
  times_.erase(time);
  return true;
}

void DeadlineTimer::Loop() {
  while (true) {
    std::function<void()> due;
    {
      MutexLock lock(mu_);
      while (!stop_ && (calls_.empty() || calls_.begin()->first.first >
                                              SteadyTime::clock::now())) {
        changed_.WaitUntil(lock, calls_.empty() ? SteadyTime::max()
                                                : calls_.begin()->first.first);
      }
      // Before anything that is due: after Stop() has set it, no further
      // function starts.
      if (stop_) return;
      // From here on Cancel() is false: taken out under the lock, run without
      // it.
      due = std::move(calls_.begin()->second);
      times_.erase(calls_.begin()->first.second);
      calls_.erase(calls_.begin());
    }
    due();
  }
}

}  // namespace millrace
