#include "server/pipeline/scheduler.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "common/logging.h"
#include "server/pipeline/run_times.h"

namespace millrace {

Scheduler::Scheduler(Options options)
    : most_(std::max(options.threads, options.most_threads)),
      run_(std::move(options.run)),
      rest_(std::move(options.rest)),
      name_(std::move(options.name)),
      ids_(most_) {
  MR_CHECK(options.threads >= 1);
  const uint32_t started = SetThreads(options.threads);
  MR_CHECK(started > 0) << "the system gives no thread";
}

Scheduler::~Scheduler() { Stop(); }

uint32_t Scheduler::SetThreads(uint32_t threads) {
  threads = std::clamp<uint32_t>(threads, 1, most_);
  MutexLock starting(start_mu_);
  if (joined_) return threads;
  const auto set_active = [this](uint32_t active) {
    MutexLock lock(mu_);
    active_ = active;
    active_now_.store(active);
  };
  set_active(threads);
  try {
    while (threads_.size() < threads) {
      const uint32_t worker = static_cast<uint32_t>(threads_.size());
      threads_.emplace_back(name_ + "-" + std::to_string(worker),
                            [this, worker] { Work(worker); });
    }
  } catch (const std::system_error&) {
    // A limit of the system: those that are there do.
    threads = static_cast<uint32_t>(threads_.size());
    set_active(threads);
  }
  // Who is wanted wakes up, who is not goes to rest.
  wanted_.NotifyAll();
  work_.NotifyAll();
  return threads;
}

void Scheduler::Stop() {
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  work_.NotifyAll();
  wanted_.NotifyAll();
  MutexLock starting(start_mu_);
  joined_ = true;
  for (NamedThread& thread : threads_) thread.Join();
}

void Scheduler::Add(const std::shared_ptr<Lane>& lane, std::shared_ptr<Job> job,
                    uint64_t begin, uint64_t end, uint64_t rows_per_task,
                    uint64_t order) {
  MR_CHECK(begin < end && rows_per_task >= 1);
  const uint64_t tasks = (end - begin + rows_per_task - 1) / rows_per_task;
  uint64_t idle;
  {
    MutexLock lock(mu_);
    if (lane->entries.empty()) ring_.push_back(lane);
    auto at = lane->entries.end();
    while (at != lane->entries.begin() && std::prev(at)->order > order) --at;
    lane->entries.insert(at,
                         {std::move(job), begin, end, rows_per_task, order});
    idle = idle_.threads();
  }
  // No more than there is work for: hundreds that wake up for nothing cost more
  // than the work.
  if (tasks >= idle) {
    if (idle > 0) work_.NotifyAll();
    return;
  }
  for (uint64_t task = 0; task < tasks; ++task) work_.NotifyOne();
}

std::vector<Scheduler::Task> Scheduler::Remove(
    const std::shared_ptr<Lane>& lane) {
  std::vector<Task> removed;
  MutexLock lock(mu_);
  for (Lane::Entry& entry : lane->entries) {
    removed.push_back({std::move(entry.job), entry.next, entry.end});
  }
  if (!lane->entries.empty()) {
    lane->entries.clear();
    ring_.erase(std::find(ring_.begin(), ring_.end(), lane));
  }
  return removed;
}

void Scheduler::Post(std::function<void()> closure) {
  {
    MutexLock lock(mu_);
    closures_.push_back(std::move(closure));
  }
  work_.NotifyOne();
}

double Scheduler::IdleThreadSeconds() {
  MutexLock lock(mu_);
  return idle_.Seconds();
}

Scheduler::Usage Scheduler::Measure(bool with_cpu) {
  Usage usage;
  {
    MutexLock lock(mu_);
    usage.thread_seconds = there_.Seconds();
    usage.idle_seconds = idle_.Seconds();
  }
  if (!with_cpu) return usage;
  usage.knows_cpu = true;
  for (const std::atomic<pid_t>& id : ids_) {
    const pid_t thread = id.load();
    if (thread == 0) continue;
    const std::optional<RunTimes> times = RunTimes::Of(thread);
    if (!times) {
      usage.knows_cpu = false;
      break;
    }
    usage.cpu_seconds += times->cpu_seconds;
    usage.delayed_seconds += times->delayed_seconds;
  }
  return usage;
}

bool Scheduler::Rest(uint32_t worker) {
  if (rest_ != nullptr) rest_(worker);
  MutexLock lock(mu_);
  there_.Add(-1);
  while (worker >= active_ && !stop_) wanted_.Wait(lock);
  there_.Add(1);
  return worker < active_;
}

void Scheduler::Work(uint32_t worker) {
  ids_[worker] = gettid();
  {
    MutexLock lock(mu_);
    there_.Add(1);
  }
  while (true) {
    std::function<void()> closure;
    Task task;
    bool too_many;
    {
      MutexLock lock(mu_);
      while (worker < active_ && !has_work()) {
        if (stop_) return;
        idle_.Add(1);
        work_.Wait(lock);
        idle_.Add(-1);
      }
      too_many = worker >= active_;
      if (too_many) {
        // It may have been woken up for this.
        if (has_work()) work_.NotifyOne();
      } else if (!closures_.empty()) {
        closure = std::move(closures_.front());
        closures_.pop_front();
      } else {
        std::shared_ptr<Lane> lane = std::move(ring_.front());
        ring_.pop_front();
        Lane::Entry& entry = lane->entries.front();
        task.begin = entry.next;
        task.end = entry.next =
            std::min(entry.end, entry.next + entry.rows_per_task);
        if (entry.next == entry.end) {
          task.job = std::move(entry.job);
          lane->entries.pop_front();
        } else {
          task.job = entry.job;
        }
        if (!lane->entries.empty()) ring_.push_back(std::move(lane));
      }
    }
    if (too_many) {
      if (!Rest(worker)) return;
    } else if (closure != nullptr) {
      closure();
    } else {
      run_(worker, task);
    }
  }
}

}  // namespace millrace
