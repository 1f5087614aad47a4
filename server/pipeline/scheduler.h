// Scheduler gives work to the engine's threads: tasks (some rows of a batch) of
// many lanes (runs). Lanes take turns, so that a long run does not hold up a
// short one; within a lane the earliest batch is finished first. Closures come
// before tasks. The threads that read ahead are another one of its kind.
//
// It does not know what a task does. Thread-safe; owns its threads. Stop()
// finishes all that was added, then joins; the destructor stops.
//
//   Scheduler scheduler(4, [&](int worker, const Scheduler::Task& task) {...});
//   scheduler.Add(lane, job, /*rows=*/64, /*rows_per_task=*/1);

#ifndef MILLRACE_SERVER_PIPELINE_SCHEDULER_H_
#define MILLRACE_SERVER_PIPELINE_SCHEDULER_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "common/thread.h"

namespace millrace {

class Scheduler {
 public:
  // What tasks are made of; its owner derives from it.
  class Job {
   public:
    virtual ~Job() = default;
  };

  // Rows [begin, end) of a job. Each row is handed out once.
  struct Task {
    std::shared_ptr<Job> job;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  // A queue of jobs that takes turns with the others. Shared by whoever adds
  // to it and the scheduler.
  class Lane {
   private:
    friend class Scheduler;
    struct Entry {
      std::shared_ptr<Job> job;
      uint64_t next = 0;
      uint64_t end = 0;
      uint64_t rows_per_task = 1;
      uint64_t order = 0;
    };
    std::deque<Entry> entries;  // guarded by the scheduler's mutex
  };

  // `run` is called on worker `worker` (0 .. threads-1) for every task.
  // The threads are called `name` and their number.
  Scheduler(uint32_t threads,
            std::function<void(uint32_t worker, const Task& task)> run,
            const std::string& name = "mr-worker");
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler();

  // `rows` and `rows_per_task` are at least 1.
  void Add(const std::shared_ptr<Lane>& lane, std::shared_ptr<Job> job,
           uint64_t rows, uint64_t rows_per_task) {
    AddRange(lane, std::move(job), 0, rows, rows_per_task, /*order=*/0);
  }

  // The same of rows [begin, end), which come in the lane before those with a
  // higher `order`.
  void AddRange(const std::shared_ptr<Lane>& lane, std::shared_ptr<Job> job,
                uint64_t begin, uint64_t end, uint64_t rows_per_task,
                uint64_t order);

  // Takes back what was not handed out of the lane, each as one task.
  std::vector<Task> Remove(const std::shared_ptr<Lane>& lane);

  // Runs on a worker, soon.
  void Post(std::function<void()> closure);

  // Thread-seconds that workers had nothing to do, so far.
  double IdleThreadSeconds();
  uint32_t threads() const { return thread_count_; }

  // Finishes all that was added, also by the tasks and closures that it still
  // runs, then joins the workers. What others add later never runs. Idempotent;
  // one caller at a time, not from a worker.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;

  void Work(uint32_t worker);
  // Before sleeping_ changes.
  void CountIdle() MR_REQUIRES(mu_);

  const uint32_t thread_count_;
  const std::function<void(uint32_t, const Task&)> run_;

  Mutex mu_;
  CondVar work_;
  // Lanes with entries, in the order of their turns.
  std::deque<std::shared_ptr<Lane>> ring_ MR_GUARDED_BY(mu_);
  std::deque<std::function<void()>> closures_ MR_GUARDED_BY(mu_);
  uint32_t sleeping_ MR_GUARDED_BY(mu_) = 0;
  // Of the workers, up to idle_until_.
  Clock::duration idle_ MR_GUARDED_BY(mu_) = Clock::duration::zero();
  Clock::time_point idle_until_ MR_GUARDED_BY(mu_);
  bool stop_ MR_GUARDED_BY(mu_) = false;

  std::vector<NamedThread> threads_;  // last: they use all of the above
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_SCHEDULER_H_
