// Scheduler gives work to the engine's threads: tasks (some rows of a batch) of
// many lanes (runs). Plans and their clients share the threads' time
// (server/pipeline/threads/fair_queue.h); within a lane the earliest batch is
// finished first. Closures come before tasks. The threads that read ahead are
// another one of its kind.
//
// Time is the steady clock's, from a task's begin to its end: a task that waits
// for a page or for a CPU holds its thread as one that computes does.
//
// It does not know what a task does. Thread-safe; owns its threads. How many of
// them work may change at any time: one too many finishes what it does and
// sleeps; nothing is lost. Stop() finishes all that was added, then joins; the
// destructor stops.
//
//   Scheduler scheduler(4, [&](int worker, const Scheduler::Task& task) {...});
//   auto lane = std::make_shared<Scheduler::Lane>(sharer);
//   scheduler.Add(lane, job, /*begin=*/0, /*end=*/64, /*rows_per_task=*/64,
//                 /*order=*/0);

#ifndef MILLRACE_SERVER_PIPELINE_THREADS_SCHEDULER_H_
#define MILLRACE_SERVER_PIPELINE_THREADS_SCHEDULER_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "common/thread.h"
#include "server/pipeline/threads/fair_queue.h"
#include "server/pipeline/threads/thread_tally.h"

namespace millrace {

class Scheduler {
 public:
  // What tasks are made of; its owner derives from it.
  class Job {
   public:
    virtual ~Job() = default;

   private:
    friend class Scheduler;
    // True: it has done its rows itself.
    virtual bool RunSelf() { return false; }
  };

  // Rows [begin, end) of a job. Each row is handed out once.
  struct Task {
    std::shared_ptr<Job> job;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  // A queue of jobs of one sharer. Shared by whoever adds to it and the
  // scheduler.
  class Lane final : public FairQueue::Lane {
   public:
    using FairQueue::Lane::Lane;

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

  struct Options {
    uint32_t threads = 1;       // at first, at least 1
    uint32_t most_threads = 0;  // that SetThreads() may ask for; 0: `threads`
    // Called on worker `worker` (0 .. most_threads-1) for every task.
    std::function<void(uint32_t worker, const Task& task)> run;
    // Called on a worker before it goes to sleep as one too many; may be null.
    std::function<void(uint32_t worker)> rest;
    // The threads are called so and their number.
    std::string name = "mr-worker";
    FairQueue::Options sharing;
    // Above 0: where all threads have been in their tasks for so long and a
    // plan waits that none of them works for, a thread that is too many does a
    // task of that plan, if there is such a thread. The system shares the CPUs
    // between them, so that a row which takes seconds holds up nobody.
    int64_t long_task_nanos = 0;
    // Nanoseconds; null: the steady clock.
    std::function<int64_t()> clock;
  };

  explicit Scheduler(Options options);
  // A fixed number of threads.
  Scheduler(uint32_t threads,
            std::function<void(uint32_t worker, const Task& task)> run,
            const std::string& name = "mr-worker")
      : Scheduler(
            Options{.threads = threads, .run = std::move(run), .name = name}) {}
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler();

  // Rows [begin, end) of a job, at least one, in tasks of at most
  // `rows_per_task`, at least 1; fewer where rows take long
  // (FairQueue::Options::task_nanos). They come in the lane before those with a
  // higher `order`.
  void Add(const std::shared_ptr<Lane>& lane, std::shared_ptr<Job> job,
           uint64_t begin, uint64_t end, uint64_t rows_per_task,
           uint64_t order);

  // Takes back what was not handed out of the lane, each as one task.
  std::vector<Task> Remove(const std::shared_ptr<Lane>& lane);

  // Runs on a worker, soon.
  void Post(std::function<void()> closure);

  // Runs on a worker in its turn, as a task of the sharer: for what takes long.
  void PostShared(std::shared_ptr<const Sharer> sharer,
                  std::function<void()> closure);

  // FairQueue::Shares().
  std::vector<FairQueue::Share> Shares(size_t most);

  // How many threads work from now on, 1 .. most_threads(). Those that have
  // never worked are started. Fewer when the system gives no more threads:
  // returns the number.
  uint32_t SetThreads(uint32_t threads) MR_EXCLUDES(start_mu_, mu_);

  uint32_t threads() const { return active_now_.load(); }
  uint32_t most_threads() const { return most_; }

  // Thread-seconds that workers had nothing to do, so far. Those that sleep as
  // too many do not count.
  double IdleThreadSeconds();

  // What all threads did, so far.
  struct Usage {
    double thread_seconds = 0;  // that they were there to work
    double idle_seconds = 0;    // of these
    // Of the rest; what then is left they waited. Only when `knows_cpu`.
    double cpu_seconds = 0;
    double delayed_seconds = 0;  // no CPU was free
    bool knows_cpu = false;
  };
  // Asks the system about every thread (server/pipeline/threads/thread_times.h)
  // when `with_cpu`.
  Usage Measure(bool with_cpu);

  // Finishes all that was added, also by the tasks and closures that it still
  // runs, then joins the workers. What others add later never runs. Idempotent;
  // one caller at a time, not from a worker.
  void Stop();

 private:
  // A task that a thread has begun.
  struct Begun {
    Task task;
    FairQueue::Turn turn;
    int64_t at = 0;
  };

  void Work(uint32_t worker);
  void Run(uint32_t worker, Begun& begun);
  // The next task; without a job when there is none for now.
  Begun TakeTask(uint32_t worker) MR_REQUIRES(mu_);
  // Says that the thread's task, if it has one, is over.
  void EndTask(uint32_t worker, Begun& begun, int64_t now) MR_REQUIRES(mu_);
  // Until the worker is wanted again, or for a task. False: never.
  bool Rest(uint32_t worker);
  // When the worker, one too many, may take a task for want of others; never:
  // INT64_MAX.
  int64_t HelpsAt(uint32_t worker) MR_REQUIRES(mu_);
  void WakeHelper() MR_REQUIRES(mu_);
  int64_t Now() const;
  bool has_work() const MR_REQUIRES(mu_) {
    return !closures_.empty() || queue_.Next(active_) != nullptr;
  }

  const uint32_t most_;
  const int64_t long_task_nanos_;
  const std::function<int64_t()> clock_;
  const std::function<void(uint32_t, const Task&)> run_;
  const std::function<void(uint32_t)> rest_;
  const std::string name_;

  std::atomic<uint32_t> active_now_{0};  // a copy of active_
  std::vector<std::atomic<pid_t>> ids_;  // of the system; 0: not started

  Mutex mu_;
  CondVar work_;
  CondVar wanted_;  // of those that are too many
  // The one of those that may help waits without a time limit.
  bool helper_sleeps_ MR_GUARDED_BY(mu_) = false;
  FairQueue queue_ MR_GUARDED_BY(mu_);  // of lanes with entries
  // When each thread began its task; 0: it has none.
  std::vector<int64_t> began_ MR_GUARDED_BY(mu_);
  std::deque<std::function<void()>> closures_ MR_GUARDED_BY(mu_);
  // Workers from this number on are too many. Those before it are started.
  uint32_t active_ MR_GUARDED_BY(mu_) = 0;
  ThreadTally there_ MR_GUARDED_BY(mu_);
  ThreadTally idle_ MR_GUARDED_BY(mu_);
  bool stop_ MR_GUARDED_BY(mu_) = false;

  Mutex start_mu_;  // before mu_
  bool joined_ MR_GUARDED_BY(start_mu_) = false;
  // Last: they use all of the above.
  std::vector<NamedThread> threads_ MR_GUARDED_BY(start_mu_);
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_THREADS_SCHEDULER_H_
