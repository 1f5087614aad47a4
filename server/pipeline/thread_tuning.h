// ThreadTuning adapts the engine's numbers of threads: every few seconds it
// measures what the threads did, asks the policy
// (server/pipeline/threads/thread_tuner.h) for the best numbers, sets them and
// keeps the last changes for GetStatus.
//
// Thread-safe. Owns no thread: it runs on the timer. Timer and threads outlive
// it, and the timer is stopped before it goes.
//
//   ThreadTuning tuning(options, scheduler, ahead, clock);
//   tuning.Start(timer);

#ifndef MILLRACE_SERVER_PIPELINE_THREAD_TUNING_H_
#define MILLRACE_SERVER_PIPELINE_THREAD_TUNING_H_

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/deadline_timer.h"
#include "common/mutex.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"
#include "server/pipeline/reading/read_ahead.h"
#include "server/pipeline/threads/scheduler.h"
#include "server/pipeline/threads/stage_clock.h"
#include "server/pipeline/threads/thread_tuner.h"

namespace millrace::pipeline {

class ThreadTuning {
 public:
  struct Options {
    // Which numbers it may change.
    bool workers = false;
    bool readers = false;
    // Between looks.
    absl::Duration interval = absl::Seconds(2);
    std::shared_ptr<ThreadPolicy> policy;  // null: a ThreadTuner
  };

  // Changes that are kept.
  static constexpr size_t kKept = 16;

  // `ahead` may be null.
  ThreadTuning(Options options, Scheduler* scheduler, ReadAhead* ahead,
               const StageClock* clock);

  // Starts the periodic measurements, if a number may change.
  void Start(DeadlineTimer& timer);

  // Newest first.
  std::vector<ThreadChange> Changes() const;

 private:
  // Sums since the start.
  struct Look {
    SteadyTime time;
    double process_cpu_seconds = 0;
    Scheduler::Usage workers;
    uint64_t worked = 0;  // samples
    ReadAhead::Usage readers;
  };
  struct Change {
    SteadyTime time;
    ThreadChange change;
  };

  void Wait(DeadlineTimer& timer);
  void Tick();
  Look Measure();
  ThreadMeasurement Since(const Look& before, const Look& now) const;
  void Note(const char* kind, uint32_t before, uint32_t after,
            const std::string& reason);

  // Constant.
  const Options options_;
  Scheduler* const scheduler_;
  ReadAhead* const ahead_;
  const StageClock* const clock_;

  // Of the timer's thread, once it runs.
  const std::shared_ptr<ThreadPolicy> policy_;
  Look last_;

  mutable Mutex mu_;
  std::deque<Change> changes_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_THREAD_TUNING_H_
