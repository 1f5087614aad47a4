#include "server/pipeline/threads/scheduler.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "common/logging.h"
#include "server/pipeline/threads/thread_times.h"

namespace millrace::pipeline {
namespace {

// A closure as a job of one row, so that it waits for its turn like a task.
class CallJob final : public Scheduler::Job {
 public:
  explicit CallJob(std::function<void()> call) : call_(std::move(call)) {}

 private:
  bool RunSelf() override {
    call_();
    return true;
  }

  const std::function<void()> call_;
};

}  // namespace

Scheduler::Scheduler(Options options)
    : max_threads_(std::max(options.threads, options.max_threads)),
      long_task_nanos_(options.long_task_nanos),
      leaves_delay_out_(options.clock == nullptr &&
                        options.sharing.task_nanos > 0),
      clock_(std::move(options.clock)),
      run_(std::move(options.run)),
      rest_(std::move(options.rest)),
      name_(std::move(options.name)),
      ids_(max_threads_),
      queue_(options.sharing),
      began_(max_threads_) {
  MR_CHECK(options.threads >= 1);
  const uint32_t started = SetThreads(options.threads);
  MR_CHECK(started > 0) << "the system cannot start a thread";
}

Scheduler::~Scheduler() { Stop(); }

uint32_t Scheduler::SetThreads(uint32_t threads) {
  threads = std::clamp<uint32_t>(threads, 1, max_threads_);
  MutexLock starting(start_mu_);
  if (joined_) return threads;
  const auto set_active = [this](uint32_t active) {
    MutexLock lock(mu_);
    active_ = active;
    active_now_.store(active);
  };
  // Set before the threads start, because a new thread compares its number with
  // active_.
  set_active(threads);
  // One more thread, which helps while tasks take long.
  const uint32_t wanted =
      long_task_nanos_ > 0 ? std::min(threads + 1, max_threads_) : threads;
  try {
    while (threads_.size() < wanted) {
      const uint32_t worker = static_cast<uint32_t>(threads_.size());
      threads_.emplace_back(name_ + "-" + std::to_string(worker),
                            [this, worker] { Work(worker); });
    }
  } catch (const std::system_error&) {
    // A limit of the system: the existing threads do the work. active_ must
    // count only them.
    threads = std::min(threads, static_cast<uint32_t>(threads_.size()));
    set_active(threads);
  }
  // Workers that became active leave wanted_; surplus workers leave work_ and
  // enter Rest(). None misses the change: active_ was changed under mu_, and
  // each worker holds mu_ when it decides to wait.
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
  // After stop_ is set and signalled: a SetThreads() that holds start_mu_ now
  // starts threads that find stop_ and end. A later SetThreads() finds joined_.
  MutexLock starting(start_mu_);
  joined_ = true;
  for (NamedThread& thread : threads_) thread.Join();
}

void Scheduler::Add(const std::shared_ptr<Lane>& lane, std::shared_ptr<Job> job,
                    uint64_t begin, uint64_t end, uint64_t rows_per_task,
                    uint64_t order) {
  MR_CHECK(begin < end && rows_per_task >= 1);
  uint64_t idle, tasks;
  const int64_t now = Now();
  {
    MutexLock lock(mu_);
    const bool waits = !lane->entries.empty();
    auto at = lane->entries.end();
    // Searched from the end, because steps arrive mostly in order. Inserted
    // behind entries of the same order, so that units of one batch keep their
    // order.
    while (at != lane->entries.begin() && std::prev(at)->order > order) --at;
    lane->entries.insert(at,
                         {std::move(job), begin, end, rows_per_task, order});
    if (!waits) queue_.Push(lane, now);
    const uint64_t rows = std::min(rows_per_task, queue_.RowsPerTask(*lane));
    tasks = (end - begin + rows - 1) / rows;
    idle = idle_.threads();
    WakeHelper();
  }
  // Wakes at most one worker for each task: waking hundreds for nothing costs
  // more than the work. Signalled after the lock, so that the workers do not
  // block on it. Waking too few does no harm: a worker that takes a task wakes
  // another one while there is more work.
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
    // The queue holds the lane exactly while the lane has entries.
    lane->entries.clear();
    queue_.Remove(lane.get());
  }
  return removed;
}

void Scheduler::PostShared(std::shared_ptr<const Sharer> sharer,
                           std::function<void()> closure) {
  Add(std::make_shared<Lane>(std::move(sharer)),
      std::make_shared<CallJob>(std::move(closure)), 0, 1, 1, 0);
}

std::vector<FairQueue::Share> Scheduler::Shares(size_t max_shares) {
  const int64_t now = Now();
  MutexLock lock(mu_);
  return queue_.Shares(max_shares, now);
}

int64_t Scheduler::Now() const {
  if (clock_ != nullptr) return clock_();
  return std::chrono::nanoseconds(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
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
    // The thread was not started. The list is read without a lock, because ids
    // are set once.
    if (thread == 0) continue;
    const std::optional<ThreadTimes> times = ThreadTimes::Of(thread);
    if (!times) {
      // The thread has ended, or the kernel does not count. A sum over the
      // other threads would be too small.
      usage.knows_cpu = false;
      break;
    }
    usage.cpu_seconds += times->cpu_seconds;
    usage.delayed_seconds += times->delayed_seconds;
  }
  return usage;
}

void Scheduler::WakeHelper() {
  // An idle thread takes the work itself. A plan that some thread works for
  // does not starve.
  if (!helper_sleeps_ || idle_.threads() > 0 || !queue_.NextIsAlone()) return;
  helper_sleeps_ = false;
  wanted_.NotifyAll();
}

int64_t Scheduler::HelpsAt(uint32_t worker) {
  if (long_task_nanos_ == 0 || worker != active_) return INT64_MAX;
  // Set first, because each return of INT64_MAX lets the caller wait on wanted_
  // without a time limit.
  helper_sleeps_ = true;
  if (idle_.threads() > 0 || !queue_.NextIsAlone()) return INT64_MAX;
  int64_t last = 0;
  for (uint32_t other = 0; other < active_; ++other) {
    // The thread is between two tasks and takes the next one itself.
    if (began_[other] == 0) return INT64_MAX;
    last = std::max(last, began_[other]);
  }
  // The caller waits with a time limit. The last task to begin determines it,
  // because all threads must have been in their tasks for that long.
  helper_sleeps_ = false;
  return last + long_task_nanos_;
}

bool Scheduler::Rest(uint32_t worker) {
  // The worker has released its memory since its last task.
  bool rested = false;
  while (true) {
    Begun help;
    {
      MutexLock lock(mu_);
      // there_ counts this thread while it helps and not while it sleeps.
      there_.Add(-1);
      while (worker >= active_ && !stop_) {
        const int64_t helps_at = HelpsAt(worker);
        if (helps_at == INT64_MAX) {
          // The worker releases its memory before it sleeps without a time
          // limit. That needs the lock released, so the loop is left and
          // entered again.
          if (!rested) break;
          wanted_.Wait(lock);
        } else if (const int64_t now = Now(); now < helps_at) {
          wanted_.WaitUntil(lock, std::chrono::steady_clock::now() +
                                      std::chrono::nanoseconds(helps_at - now));
        } else {
          // The time has come, and the state is unchanged: HelpsAt() has just
          // checked it under this lock. So the plan that waits has a task.
          help = TakeTask(worker);
          if (help.task.job != nullptr) break;
          // Not reached: no limit of the queue skips a plan without a thread.
          // A wait without a time limit needs helper_sleeps_, because without
          // it WakeHelper() would not end the wait.
          helper_sleeps_ = true;
          wanted_.Wait(lock);
        }
      }
      there_.Add(1);
      if (help.task.job == nullptr && (rested || worker < active_ || stop_)) {
        return worker < active_;
      }
    }
    if (help.task.job == nullptr) {
      if (rest_ != nullptr) rest_(worker);
      rested = true;
      continue;
    }
    // The task may have used scratch memory again.
    rested = false;
    Run(worker, help);
    const int64_t now = Now();
    MutexLock lock(mu_);
    EndTask(worker, help, now);
  }
}

Scheduler::Begun Scheduler::TakeTask(uint32_t worker) {
  Begun begun;
  auto* const lane = static_cast<Lane*>(queue_.Next(active_));
  if (lane == nullptr) return begun;
  Lane::Entry& entry = lane->entries.front();
  const uint64_t rows = std::min(
      {entry.rows_per_task, queue_.RowsPerTask(*lane), entry.end - entry.next});
  begun.task.begin = entry.next;
  begun.task.end = entry.next += rows;
  if (entry.next == entry.end) {
    // Moved, not copied, so that a lane holds no job whose rows are all handed
    // out.
    begun.task.job = std::move(entry.job);
    lane->entries.pop_front();
  } else {
    begun.task.job = entry.job;
  }
  // Called after the entry was removed: the queue keeps the lane only if it has
  // more entries. Otherwise `lane` may be destroyed here.
  begun.turn = queue_.Begin(lane, rows, !lane->entries.empty());
  begun.at = began_[worker] = Now();
  return begun;
}

void Scheduler::EndTask(uint32_t worker, Begun& begun, int64_t now) {
  if (begun.turn.client == nullptr) return;
  queue_.End(begun.turn, now - begun.at - begun.delayed, now);
  began_[worker] = 0;
  begun.turn.client = nullptr;
}

void Scheduler::Run(uint32_t worker, Begun& begun) {
  // The job is released here, without the lock and before EndTask(): its
  // destructor may free a batch, and that time belongs to the task.
  const int64_t before = leaves_delay_out_ ? ThisThreadsDelay() : 0;
  if (!begun.task.job->RunSelf()) run_(worker, begun.task);
  begun.task.job.reset();
  if (leaves_delay_out_) begun.delayed = ThisThreadsDelay() - before;
}

void Scheduler::Work(uint32_t worker) {
  ids_[worker] = gettid();
  {
    MutexLock lock(mu_);
    there_.Add(1);
  }
  // A task is begun under the lock in one round, run without the lock, and
  // ended under the lock of the next round. So each task takes the lock once.
  Begun begun;  // the last task, then the next one
  while (true) {
    std::function<void()> closure;
    bool too_many;
    const int64_t now = begun.turn.client == nullptr ? 0 : Now();
    {
      MutexLock lock(mu_);
      EndTask(worker, begun, now);
      while (worker < active_ && !has_work()) {
        // If the condition is false, there are lanes with work that must not
        // begin before some task ends. The thread of that task wakes this one.
        if (stop_ && queue_.empty()) {
          // The last task may have ended without a signal, and the other
          // workers wait for the end now.
          work_.NotifyAll();
          return;
        }
        idle_.Add(1);
        work_.Wait(lock);
        idle_.Add(-1);
      }
      too_many = worker >= active_;
      if (too_many) {
        // The signal that woke this thread may have been for this work.
        if (has_work()) work_.NotifyOne();
      } else if (!closures_.empty()) {
        closure = std::move(closures_.front());
        closures_.pop_front();
      } else {
        begun = TakeTask(worker);
        // The end of a task may allow more than one task to begin, and Add()
        // has signalled only the tasks that were possible then.
        if (idle_.threads() > 0 && has_work()) work_.NotifyOne();
        WakeHelper();
      }
    }
    if (too_many) {
      if (!Rest(worker)) return;
    } else if (closure != nullptr) {
      closure();
    } else {
      Run(worker, begun);
    }
  }
}

}  // namespace millrace::pipeline
