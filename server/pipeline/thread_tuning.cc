#include "server/pipeline/thread_tuning.h"

#include <time.h>

#include <utility>

#include "common/cgroup.h"

namespace millrace::pipeline {
namespace {

double ProcessCpuSeconds() {
  timespec time = {};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * time.tv_nsec;
}

}  // namespace

ThreadTuning::ThreadTuning(Options options, Scheduler* scheduler,
                           ReadAhead* ahead, const StageClock* clock)
    : options_(std::move(options)),
      scheduler_(scheduler),
      ahead_(ahead),
      clock_(clock),
      policy_(options_.policy != nullptr ? options_.policy
                                         : std::make_shared<ThreadTuner>()) {}

void ThreadTuning::Start(DeadlineTimer& timer) {
  const bool readers = options_.readers && ahead_ != nullptr;
  if (!options_.workers && !readers) return;
  last_ = Measure();
  Wait(timer);
}

void ThreadTuning::Wait(DeadlineTimer& timer) {
  // One task after the other on the timer's thread: policy_ and last_ need no
  // lock. The timer is stopped before this object is destroyed.
  timer.After(options_.interval, [this, &timer] {
    Tick();
    Wait(timer);
  });
}

ThreadTuning::Look ThreadTuning::Measure() {
  // The counters are read one after the other while threads add to them. The
  // error is that of a few samples and does not add up, because each interval
  // is a difference of two such looks.
  Look look;
  look.time = SteadyTime::clock::now();
  look.process_cpu_seconds = ProcessCpuSeconds();
  look.workers = scheduler_->Measure(/*with_cpu=*/true);
  look.worked = clock_->samples(StageClock::READ);
  if (ahead_ != nullptr) look.readers = ahead_->Measure();
  return look;
}

ThreadMeasurement ThreadTuning::Since(const Look& before,
                                      const Look& now) const {
  ThreadMeasurement m;
  m.seconds = std::chrono::duration<double>(now.time - before.time).count();
  // Read again each time, because a container's CPU limit may change while it
  // runs.
  m.cpus = AvailableCpus();
  m.process_cpu_seconds = now.process_cpu_seconds - before.process_cpu_seconds;
  ThreadMeasurement::Workers& w = m.workers;
  w.threads = scheduler_->threads();
  w.max_threads = options_.workers ? scheduler_->max_threads() : w.threads;
  w.thread_seconds = now.workers.thread_seconds - before.workers.thread_seconds;
  w.idle_seconds = now.workers.idle_seconds - before.workers.idle_seconds;
  w.knows_cpu = now.workers.knows_cpu && before.workers.knows_cpu;
  w.cpu_seconds = now.workers.cpu_seconds - before.workers.cpu_seconds;
  w.delayed_seconds =
      now.workers.delayed_seconds - before.workers.delayed_seconds;
  w.samples = now.worked - before.worked;
  if (ahead_ == nullptr) return m;
  ThreadMeasurement::Readers& r = m.readers;
  r.threads = ahead_->threads();
  r.max_threads = options_.readers ? ahead_->max_threads() : r.threads;
  r.thread_seconds = now.readers.thread_seconds - before.readers.thread_seconds;
  r.idle_seconds = now.readers.idle_seconds - before.readers.idle_seconds;
  r.blocked_seconds =
      now.readers.blocked_seconds - before.readers.blocked_seconds;
  r.read_seconds = now.readers.read_seconds - before.readers.read_seconds;
  r.samples = now.readers.samples - before.readers.samples;
  return m;
}

void ThreadTuning::Tick() {
  const Look now = Measure();
  const ThreadMeasurement measured = Since(last_, now);
  last_ = now;
  // The counts in `measured` are those of this look; SetThreads() may find less
  // room (memory) and returns the count that it has reached.
  const ThreadDecision decision = policy_->Decide(measured);
  if (options_.workers && decision.workers != measured.workers.threads) {
    Note("decode", measured.workers.threads,
         scheduler_->SetThreads(decision.workers), decision.workers_reason);
  }
  if (options_.readers && ahead_ != nullptr &&
      decision.readers != measured.readers.threads) {
    Note("read", measured.readers.threads, ahead_->SetThreads(decision.readers),
         decision.readers_reason);
  }
}

void ThreadTuning::Note(const char* kind, uint32_t before, uint32_t after,
                        const std::string& reason) {
  if (before == after || reason.empty()) return;
  Change noted;
  noted.time = SteadyTime::clock::now();
  noted.change.set_kind(kind);
  noted.change.set_before(before);
  noted.change.set_after(after);
  noted.change.set_reason(reason);
  MutexLock lock(mu_);
  changes_.push_front(std::move(noted));
  if (changes_.size() > kKept) changes_.pop_back();
}

std::vector<ThreadChange> ThreadTuning::Changes() const {
  const SteadyTime now = SteadyTime::clock::now();
  std::vector<ThreadChange> changes;
  MutexLock lock(mu_);
  for (const Change& one : changes_) {
    changes.push_back(one.change);
    changes.back().set_seconds_ago(
        std::chrono::duration<double>(now - one.time).count());
  }
  return changes;
}

}  // namespace millrace::pipeline
