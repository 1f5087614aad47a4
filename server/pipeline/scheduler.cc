#include "server/pipeline/scheduler.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "common/logging.h"

namespace millrace {

Scheduler::Scheduler(uint32_t threads,
                     std::function<void(uint32_t, const Task&)> run,
                     const std::string& name)
    : thread_count_(threads), run_(std::move(run)) {
  threads_.reserve(threads);
  for (uint32_t i = 0; i < threads; ++i) {
    threads_.emplace_back(name + "-" + std::to_string(i),
                          [this, i] { Work(i); });
  }
}

Scheduler::~Scheduler() { Stop(); }

void Scheduler::Stop() {
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  work_.NotifyAll();
  for (NamedThread& thread : threads_) thread.Join();
}

void Scheduler::AddRange(const std::shared_ptr<Lane>& lane,
                         std::shared_ptr<Job> job, uint64_t begin, uint64_t end,
                         uint64_t rows_per_task, uint64_t order) {
  MR_CHECK(begin < end && rows_per_task >= 1);
  const bool many = end - begin > rows_per_task;
  bool wake;
  {
    MutexLock lock(mu_);
    if (lane->entries.empty()) ring_.push_back(lane);
    auto at = lane->entries.end();
    while (at != lane->entries.begin() && std::prev(at)->order > order) --at;
    lane->entries.insert(at,
                         {std::move(job), begin, end, rows_per_task, order});
    wake = sleeping_ > 0;
  }
  if (!wake) return;
  if (many) {
    work_.NotifyAll();
  } else {
    work_.NotifyOne();
  }
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

void Scheduler::CountIdle() {
  const Clock::time_point now = Clock::now();
  idle_ += sleeping_ * (now - idle_until_);
  idle_until_ = now;
}

double Scheduler::IdleThreadSeconds() {
  MutexLock lock(mu_);
  CountIdle();
  return std::chrono::duration<double>(idle_).count();
}

void Scheduler::Work(uint32_t worker) {
  while (true) {
    std::function<void()> closure;
    Task task;
    {
      MutexLock lock(mu_);
      while (closures_.empty() && ring_.empty()) {
        if (stop_) return;
        CountIdle();
        ++sleeping_;
        work_.Wait(lock);
        CountIdle();
        --sleeping_;
      }
      if (!closures_.empty()) {
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
    if (closure != nullptr) {
      closure();
    } else {
      run_(worker, task);
    }
  }
}

}  // namespace millrace
