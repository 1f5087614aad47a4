// Scheduler gives work to the engine's threads: tasks (some rows of a batch) of
// many lanes (runs). Plans and their clients share the threads' time
// (server/pipeline/threads/fair_queue.h); within a lane the earliest batch is
// finished first. Closures come before tasks. The threads that read ahead are
// another one of its kind.
//
// The time of a task is the steady clock's, from its begin to its end: a task
// that waits for a page occupies its thread as much as a task that computes.
// Where tasks are sized by time (FairQueue::Options::task_nanos), the time in
// which a task is ready and no CPU is free is not charged: of 200 clients, the
// one whose task lost its CPU for 150 ms received nothing for 15 s.
//
// It does not know what a task does. Thread-safe; owns its threads. The number
// of active threads may change at any time: a surplus thread finishes its task
// and sleeps. Stop() finishes all added tasks, then joins; the destructor
// stops.
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

namespace millrace::pipeline {

class Scheduler {
 public:
  // The work that tasks are parts of; its owner derives from it. The lane and
  // each of its tasks hold a reference. The last reference may be released on
  // any thread.
  class Job {
   public:
    virtual ~Job() = default;

   private:
    friend class Scheduler;
    // True: the job has run the rows itself. False: Options::run runs them.
    virtual bool RunSelf() { return false; }
  };

  // Rows [begin, end) of a job. Each row is handed out once.
  struct Task {
    std::shared_ptr<Job> job;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  // A queue of jobs of one sharer. Its owner and, while it has entries, the
  // scheduler hold it.
  class Lane final : public FairQueue::Lane {
   public:
    using FairQueue::Lane::Lane;

   private:
    friend class Scheduler;
    // Rows [next, end) of a job that were not handed out; never empty.
    struct Entry {
      std::shared_ptr<Job> job;
      uint64_t next = 0;
      uint64_t end = 0;
      uint64_t rows_per_task = 1;
      uint64_t order = 0;
    };
    // In ascending `order`. Guarded by the scheduler's mutex. The FairQueue
    // holds the lane exactly while `entries` is not empty.
    std::deque<Entry> entries;
  };

  struct Options {
    uint32_t threads = 1;      // at first, at least 1
    uint32_t max_threads = 0;  // that SetThreads() may ask for; 0: `threads`
    // Called on worker `worker` (0 .. max_threads-1) for every task.
    std::function<void(uint32_t worker, const Task& task)> run;
    // Called on a surplus worker before it sleeps, without locks; may be null.
    // The worker may run tasks again afterwards.
    std::function<void(uint32_t worker)> rest;
    // Threads are named this, a dash and their number.
    std::string name = "mr-worker";
    FairQueue::Options sharing;
    // Above 0: when all threads have been in their tasks for this time, and a
    // plan waits that no thread works for, one surplus thread (if there is one)
    // takes tasks of that plan. The operating system then shares the CPUs, so
    // that a row which takes seconds does not block other plans.
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

  // Takes back what was not handed out of the lane, each entry as one task.
  // Tasks that threads have begun go on.
  std::vector<Task> Remove(const std::shared_ptr<Lane>& lane);

  // Runs a short closure on a worker, before any task. Closures start in the
  // order in which they were posted, but several may run at once.
  void Post(std::function<void()> closure);

  // Runs a long closure on a worker, in its turn as a task of the sharer.
  void PostShared(std::shared_ptr<const Sharer> sharer,
                  std::function<void()> closure);

  // FairQueue::Shares().
  std::vector<FairQueue::Share> Shares(size_t max_shares);

  // Sets the number of active threads, 1 .. max_threads(), and starts missing
  // threads. Returns the new number, which is smaller when the system gives no
  // more threads. Surplus threads finish their tasks first.
  uint32_t SetThreads(uint32_t threads) MR_EXCLUDES(start_mu_, mu_);

  uint32_t threads() const { return active_now_.load(); }
  uint32_t max_threads() const { return max_threads_; }

  // Thread-seconds in which active workers had nothing to do, so far. Surplus
  // workers do not count.
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

  // Finishes all added work, including work that the remaining tasks and
  // closures add, then joins the workers. Work that other threads add later
  // never runs. Idempotent; one caller at a time, not from a worker.
  void Stop();

 private:
  // A task that a thread has begun.
  struct Begun {
    Task task;
    FairQueue::Turn turn;
    int64_t at = 0;
    int64_t delayed = 0;  // of the time since: ready, and no CPU free
  };

  void Work(uint32_t worker);
  void Run(uint32_t worker, Begun& begun);
  // Begins the next task and charges its client an estimate. The result has no
  // job when no task may begin. EndTask() must follow.
  Begun TakeTask(uint32_t worker) MR_REQUIRES(mu_);
  // Ends the thread's task, if it has one, and charges the client the measured
  // time. Idempotent for one Begun.
  void EndTask(uint32_t worker, Begun& begun, int64_t now) MR_REQUIRES(mu_);
  // A surplus worker sleeps, and helps, until it is active again (true) or the
  // scheduler stops (false).
  bool Rest(uint32_t worker);
  // Time from which a surplus worker may take a task because all active workers
  // are busy. INT64_MAX: not before the state changes; helper_sleeps_ is set
  // then. Only worker number `active_` helps, so at most one thread helps.
  int64_t HelpsAt(uint32_t worker) MR_REQUIRES(mu_);
  // Wakes the helper if it sleeps without a time limit and there may be work
  // for it. The helper then computes its time itself. Called whenever work was
  // added or a task was begun.
  void WakeHelper() MR_REQUIRES(mu_);
  int64_t Now() const;
  // A closure, or a task that may begin now.
  bool has_work() const MR_REQUIRES(mu_) {
    return !closures_.empty() || queue_.Next(active_) != nullptr;
  }

  const uint32_t max_threads_;
  const int64_t long_task_nanos_;
  // False with a test's clock, which is not the system's time. Also false for
  // threads that only wait: they are many, and each would need a descriptor.
  const bool leaves_delay_out_;
  const std::function<int64_t()> clock_;
  const std::function<void(uint32_t, const Task&)> run_;
  const std::function<void(uint32_t)> rest_;
  const std::string name_;

  // A copy of active_, so that threads() needs no lock. Written under mu_.
  std::atomic<uint32_t> active_now_{0};
  // System id of each thread, written by that thread; 0: not started yet.
  // Measure() may query a thread that has ended; the system then reports no
  // times.
  std::vector<std::atomic<pid_t>> ids_;

  // Not held while a task, a closure or rest_ runs.
  Mutex mu_;
  // Workers below active_ without work wait here. There is one signal for each
  // task that may begin. A surplus worker passes its signal on.
  CondVar work_;
  // Workers from active_ on wait here. They are few and are woken rarely, so
  // all are woken at once.
  CondVar wanted_;
  // The helper waits on wanted_ without a time limit, or is about to: only
  // WakeHelper(), SetThreads() and Stop() wake it.
  bool helper_sleeps_ MR_GUARDED_BY(mu_) = false;
  // Contains exactly the lanes with entries.
  FairQueue queue_ MR_GUARDED_BY(mu_);
  // When each thread began its task, by Now(); 0: the thread has no task.
  std::vector<int64_t> began_ MR_GUARDED_BY(mu_);
  // First in, first out; before any task.
  std::deque<std::function<void()>> closures_ MR_GUARDED_BY(mu_);
  // Workers with a number below this one are active, the others are surplus.
  // The active workers are started, except while SetThreads() starts them.
  uint32_t active_ MR_GUARDED_BY(mu_) = 0;
  // Threads that are active or help. A sleeping surplus thread does not count.
  ThreadTally there_ MR_GUARDED_BY(mu_);
  // Threads of there_ that wait on work_.
  ThreadTally idle_ MR_GUARDED_BY(mu_);
  // Stop() was called: a worker ends when no work is left. Never cleared.
  bool stop_ MR_GUARDED_BY(mu_) = false;

  // Held while threads are started and joined. Taken before mu_; workers never
  // take it.
  Mutex start_mu_;
  // No thread is started any more.
  bool joined_ MR_GUARDED_BY(start_mu_) = false;
  // Declared last, because the threads use all members above.
  std::vector<NamedThread> threads_ MR_GUARDED_BY(start_mu_);
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_THREADS_SCHEDULER_H_
