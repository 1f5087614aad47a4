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
  if (first) changed_.NotifyAll();
  return id;
}

bool DeadlineTimer::Cancel(Id id) {
  std::function<void()> dropped;  // destroyed outside the lock
  MutexLock lock(mu_);
  const auto time = times_.find(id);
  if (time == times_.end()) return false;
  const auto call = calls_.find(std::pair(time->second, id));
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
      if (stop_) return;
      due = std::move(calls_.begin()->second);
      times_.erase(calls_.begin()->first.second);
      calls_.erase(calls_.begin());
    }
    due();
  }
}

}  // namespace millrace
