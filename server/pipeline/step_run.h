// StepRun carries one range of steps through the engine: it reserves memory for
// the steps in their order, gives their rows to the scheduler, hands finished
// batches out and says once when all is over.
//
// Thread-safe. Kept alive by its jobs, by the budget's line and by the handle.
// Callbacks run without locks held.
//
//   auto run = std::make_shared<StepRun>(services, pipeline, range, callbacks);
//   run->Start();

#ifndef MILLRACE_SERVER_PIPELINE_STEP_RUN_H_
#define MILLRACE_SERVER_PIPELINE_STEP_RUN_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "common/byte_budget.h"
#include "common/deadline_timer.h"
#include "common/mutex.h"
#include "server/pipeline/built/built_pipeline.h"
#include "server/pipeline/built/ready_batches.h"
#include "server/pipeline/engine.h"
#include "server/pipeline/row/worker_state.h"
#include "server/pipeline/run_services.h"
#include "server/pipeline/threads/scheduler.h"

namespace millrace {

class StepRun : public std::enable_shared_from_this<StepRun> {
 public:
  // The range has been checked. `services` outlives the run's work. `ready` is
  // of the pipeline, where it has ready batches.
  StepRun(const RunServices* services,
          std::shared_ptr<const BuiltPipeline> pipeline, const StepRange& range,
          Engine::Callbacks callbacks,
          std::shared_ptr<ReadySet> ready = nullptr);

  void Start() { Admit(); }

  // Ends the run with `status` unless it has ended: what waits is dropped, what
  // is under way stops at its next sample. Idempotent.
  void Stop(absl::Status status);

  // Does some rows of one of its batches. Called by the scheduler's threads.
  static void Work(const Scheduler::Task& task, WorkerState& worker);

  // Reads some samples of one of its batches. Called by the threads of
  // ReadAhead.
  static void Read(const Scheduler::Task& task, WorkerState& reader);

 private:
  class Job;
  struct Times;

  // Batches refer to ready payloads instead of being filled. What is shared
  // with the client, or packed in its place, is a copy for every batch.
  bool refers() const {
    return ready_ != nullptr && range_.memory == nullptr &&
           pipeline_->plan().spec().compression() == COMPRESSION_NONE;
  }

  // Reserves memory for the next steps as long as there is room.
  void Admit();
  // Batches that may be reserved and not finished.
  uint64_t MostOpen() const;
  // Memory for `step` has come.
  void Granted(uint64_t step, const StepRows& rows,
               ByteBudget::Reservation reservation);
  void TimedOut(uint64_t step, uint64_t bytes);
  // Gives the unit to the scheduler again when there is memory for its images.
  void Park(const std::shared_ptr<Scheduler::Job>& job, uint64_t unit,
            int64_t bytes);
  // Samples of a task of Read() have been read or given up.
  void ReadDone(const Scheduler::Task& task);
  // `units` more units of the job's rows are done or given up.
  void Complete(Job& job, uint64_t units);
  void Deliver(Job& job);
  // Unavailable: a file changed while the batch was read of it.
  absl::Status CheckFiles(const Job& job) const;
  static void Describe(const Times& times, StageMicros& micros);
  // Posts on_done when nothing is left.
  void FinishIfDone();

  // Constant.
  const RunServices* const services_;
  const std::shared_ptr<const BuiltPipeline> pipeline_;
  const std::shared_ptr<ReadySet> ready_;  // null: rows are read and placed
  const StepRange range_;
  const uint64_t end_step_;
  const Plan::Epoch epoch_;
  const Engine::Callbacks callbacks_;
  const std::shared_ptr<Scheduler::Lane> lane_;
  const std::shared_ptr<Scheduler::Lane> read_lane_;

  // Self-synchronised: set with ended_, read before every sample.
  std::atomic<bool> stopped_{false};

  Mutex mu_;
  uint64_t next_step_ MR_GUARDED_BY(mu_);    // to reserve memory for
  uint64_t open_ MR_GUARDED_BY(mu_) = 0;     // reserved and not delivered
  bool waiting_ MR_GUARDED_BY(mu_) = false;  // for memory for next_step_
  SteadyTime due_ MR_GUARDED_BY(mu_);        // when that began
  ByteBudget::Ticket ticket_ MR_GUARDED_BY(mu_) = 0;
  DeadlineTimer::Id timer_ MR_GUARDED_BY(mu_) = 0;
  bool ended_ MR_GUARDED_BY(mu_) = false;  // no further step
  bool done_ MR_GUARDED_BY(mu_) = false;   // on_done is posted
  absl::Status status_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_STEP_RUN_H_
