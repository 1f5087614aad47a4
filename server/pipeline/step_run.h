// StepRun carries one range of steps through the engine: it reserves memory for
// the steps in their order, gives their rows to the scheduler, hands finished
// batches out and reports once that all is over.
//
// Thread-safe. Its jobs, a request that waits in the budget's queue and the
// engine's handle keep it alive. Callbacks run without locks held.
//
//   auto run = std::make_shared<StepRun>(services, pipeline, range, callbacks);
//   run->Start();
//
// The life of a step: due (`waiting_`) -> reserved (`open_`, a Job exists) ->
// its samples are read ahead, where the pipeline does so -> its units are
// filled, in any order and on any thread -> delivered or dropped (`open_`
// falls). At most one step is due at a time, so memory is reserved in the order
// of the steps; the steps after that finish in any order.
//
// The end: on_done is posted once no step is due, none is reserved and none
// follows. The thread that brings the run into that state (in the last
// Complete(), TimedOut(), Stop(), or a grant that comes after the end) calls
// FinishIfDone(), which posts it at most once.

#ifndef MILLRACE_SERVER_PIPELINE_STEP_RUN_H_
#define MILLRACE_SERVER_PIPELINE_STEP_RUN_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "common/byte_budget.h"
#include "common/deadline_timer.h"
#include "common/mutex.h"
#include "server/decode/large_image_gate.h"
#include "server/pipeline/built_pipeline/built_pipeline.h"
#include "server/pipeline/built_pipeline/ready_batches.h"
#include "server/pipeline/engine.h"
#include "server/pipeline/row/worker_state.h"
#include "server/pipeline/run_services.h"
#include "server/pipeline/threads/scheduler.h"

namespace millrace::pipeline {

class StepRun : public std::enable_shared_from_this<StepRun> {
 public:
  // The range has been checked. `services` outlives the run's work. `ready` is
  // the pipeline's set where it has ready batches, else null.
  StepRun(const RunServices* services,
          std::shared_ptr<const BuiltPipeline> pipeline, const StepRange& range,
          Engine::Callbacks callbacks,
          std::shared_ptr<ReadySet> ready = nullptr);

  void Start() { Admit(); }

  // Ends the run with `status`, unless Stop() was called or on_done was posted
  // before. Tasks that no thread has begun are dropped. A thread in a task
  // stops at its next unit; Stop() does not wait for it. Idempotent. Any thread
  // may call it, also from a task of this run.
  void Stop(absl::Status status);

  // Fills some units of a batch. Called by the scheduler's threads, without
  // locks.
  static void Work(const Scheduler::Task& task, WorkerState& worker);

  // Reads some samples of a batch. Called by the threads of ReadAhead, without
  // locks.
  static void Read(const Scheduler::Task& task, WorkerState& reader);

 private:
  class Job;
  struct Times;

  // Batches refer to ready payloads instead of being filled. A batch that is
  // shared with the client, or compressed in place, needs a copy of its own.
  bool refers() const {
    return ready_ != nullptr && range_.memory == nullptr &&
           pipeline_->plan().spec().compression() == COMPRESSION_NONE;
  }

  // Reserves memory for the next steps as long as there is room, then calls
  // FinishIfDone(). Any thread may call it. With several concurrent calls,
  // exactly one takes each step.
  void Admit();
  // Upper bound of `open_`.
  uint64_t MaxOpen() const;
  // Called when memory for `step` is granted: starts the step's job, or returns
  // the memory if the run has ended. Called once for a grant, on the thread
  // that made room.
  void Granted(uint64_t step, const plan::StepRows& rows,
               ByteBudget::Reservation reservation);
  // Called on the timer's thread when `step` has been due for the admission
  // timeout. Ends the run, unless the memory was granted in the meantime.
  void TimedOut(uint64_t step, uint64_t bytes);
  // Where units of `step` wait for memory for large images.
  decode::LargeImageGate::Place GatePlace(uint64_t step) const;
  // Adds the unit to the scheduler again, as a task of its own, when there is
  // memory for its images. From this call on, another thread may fill the unit,
  // so the caller must not use the unit or its samples any more.
  void Park(const std::shared_ptr<Scheduler::Job>& job, uint64_t unit,
            int64_t bytes);
  // Called when the samples of a task of Read() are read or given up. Units
  // with all samples go to the scheduler.
  void ReadDone(const Scheduler::Task& task);
  // Counts `units` more units of the job as done or given up. Each unit is
  // counted exactly once. The call that counts the last one delivers the batch
  // or drops it. Afterwards `job` may be gone unless the caller holds it.
  void Complete(Job& job, uint64_t units);
  // Delivers the batch to on_batch. Called by the thread that has counted the
  // last unit.
  void Deliver(Job& job);
  // Unavailable: a file changed while the batch was read from it.
  absl::Status CheckFiles(const Job& job) const;
  static void Describe(const Times& times, StageMicros& micros);
  // Posts on_done when no step is due, reserved or left to reserve.
  void FinishIfDone();

  // Constant.
  const RunServices* const services_;
  const std::shared_ptr<const BuiltPipeline> pipeline_;
  const std::shared_ptr<ReadySet> ready_;  // null: rows are read and placed
  const StepRange range_;
  const uint64_t end_step_;
  const plan::Plan::Epoch epoch_;
  const Engine::Callbacks callbacks_;
  // Queues of this run at the scheduler and at ReadAhead. Their entries hold
  // jobs, which hold the run, which holds the lanes: the circle ends when the
  // last entry is taken out, so no entry may be left when the threads end.
  const std::shared_ptr<Scheduler::Lane> lane_;
  const std::shared_ptr<Scheduler::Lane> read_lane_;

  // Set by Stop() under mu_, read without a lock before every unit. Relaxed
  // reads suffice: a thread that misses the store fills one unit too many, and
  // what it fills is dropped or delivered before on_done all the same.
  std::atomic<bool> stopped_{false};

  // Taken before the timer's lock (Admit() sets timer_ under it); never held
  // while the budget, the scheduler or a callback is called.
  Mutex mu_;
  // The next step to reserve memory for. Memory for all lower steps was
  // granted.
  uint64_t next_step_ MR_GUARDED_BY(mu_);
  // Steps that were granted their memory and have not been counted off by
  // Complete(). A further step becomes due only while this is below MaxOpen().
  uint64_t open_ MR_GUARDED_BY(mu_) = 0;
  // next_step_ is due: exactly one thread or one request in the budget's queue
  // is reserving its memory. Set by Admit(); cleared by Granted(), or by the
  // thread that has cancelled the request, and CancelWait() is true for one
  // caller at most. While it is set, on_done is not posted.
  bool waiting_ MR_GUARDED_BY(mu_) = false;
  // When next_step_ became due; valid while waiting_.
  SteadyTime due_ MR_GUARDED_BY(mu_);
  // The ticket of the request in the budget's queue, and the timer that limits
  // its wait. 0: there is none, or ReserveAsync() has not returned yet. In the
  // second case Admit() sets both, or cancels the request if the run has ended
  // in the meantime.
  ByteBudget::Ticket ticket_ MR_GUARDED_BY(mu_) = 0;
  DeadlineTimer::Id timer_ MR_GUARDED_BY(mu_) = 0;
  // No further step is reserved: Stop() was called or a step timed out. Never
  // cleared. Open steps are delivered unless stopped_ is set, too.
  bool ended_ MR_GUARDED_BY(mu_) = false;
  // on_done is posted. Never cleared.
  bool done_ MR_GUARDED_BY(mu_) = false;
  // What on_done reports: the first error. Moved out when done_ is set.
  absl::Status status_ MR_GUARDED_BY(mu_);
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_STEP_RUN_H_
