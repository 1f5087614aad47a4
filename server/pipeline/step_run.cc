#include "server/pipeline/step_run.h"

#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "proto/retry_hint.h"
#include "server/pipeline/reading/batch_reads.h"
#include "server/pipeline/row/row_filler.h"
#include "server/pipeline/threads/thread_waits.h"

namespace millrace::pipeline {
namespace {

using Nanos = std::chrono::nanoseconds;

// Upper bound of the rows in one task where reads of the source may block
// (ReadWait::kRead). A task is judged after its last row, so the bound also
// limits how late a source that starts to block is noticed. A choice, not
// measured.
constexpr uint64_t kMaxWaitingRowsPerTask = 64;

// Interval in which a thread reads its page-read counter from the system: 1 ms,
// because the system call costs as much as a small sample (worker_state.h).
constexpr int64_t kPageWatchNanos = 1'000'000;
// Assumed blocking time of one page read: 0.1 ms, about that of an SSD. An
// estimate: the kernel counts the reads and not their time.
constexpr uint64_t kNanosOfPage = 100'000;

double Seconds(Nanos nanos) {
  return std::chrono::duration<double>(nanos).count();
}

Nanos FromSeconds(double seconds) {
  return std::chrono::duration_cast<Nanos>(
      std::chrono::duration<double>(seconds));
}

uint64_t Micros(uint64_t nanos) { return (nanos + 999) / 1000; }

// Notes how often a thread that fills rows was blocked by its own page faults.
// `watch` belongs to the thread; it collects samples until the interval is
// over.
void WatchPages(WorkerState::PageWatch& watch, uint64_t samples, SteadyTime now,
                ReadPace& pace) {
  watch.samples += samples;
  const int64_t nanos = Nanos(now.time_since_epoch()).count();
  if (nanos - watch.asked_nanos < kPageWatchNanos) return;
  const uint64_t reads = ThreadWaits::Now().page_reads;
  pace.NoteWait(watch.samples, (reads - watch.page_reads) * kNanosOfPage);
  watch = {.asked_nanos = nanos, .page_reads = reads, .samples = 0};
}

}  // namespace

// The times of a batch. `granted` and `wait_memory` are set before any thread
// gets the job. The threads in the job's tasks add to the sums with relaxed
// order: Complete() orders the additions before Deliver() reads the sums.
struct StepRun::Times {
  SteadyTime granted;
  Nanos wait_memory{0};
  std::atomic<uint64_t> wait_thread{0};
  std::atomic<uint64_t> read{0};
  std::atomic<uint64_t> decode{0};
  std::atomic<uint64_t> augment{0};

  static void Add(std::atomic<uint64_t>& sum, Nanos nanos) {
    sum.fetch_add(std::max<int64_t>(0, nanos.count()),
                  std::memory_order_relaxed);
  }
};

// One step from the grant of its memory to its delivery. The job's tasks, its
// entries in the lanes and its parked units hold it. When the last of them is
// gone, the payload has been delivered or is freed, with its reservation.
//
// A unit is in exactly one place at a time: in a lane, in a task of one thread,
// or parked at the gate for large images. Only that thread writes the unit's
// rows in the payload, so the payload needs no lock.
class StepRun::Job final : public Scheduler::Job {
 public:
  // `granted`: when the memory was granted. `wait_memory`: how long the step
  // had been due before.
  Job(std::shared_ptr<StepRun> run, uint64_t step, const plan::StepRows& rows,
      ByteBudget::Reservation reservation, SteadyTime granted,
      Nanos wait_memory)
      : run(std::move(run)),
        step(step),
        rows(rows),
        placed(this->run->pipeline_->layout().ForRows(rows.rows)),
        payload(this->run->refers()
                    ? Refer(this->run->ready_, step, std::move(reservation))
                    : std::make_shared<batch::BatchPayload>(
                          placed.payload_bytes(), std::move(reservation),
                          this->run->services_->pool,
                          this->run->range_.memory)),
        slice(SliceOf(*this->run->pipeline_, this->run->range_.epoch, step,
                      rows, placed, payload->data())),
        units_left(units()) {
    times.granted = granted;
    times.wait_memory = wait_memory;
    PlanReads();
  }

  // Number of units that Complete() has to count, at least one: a rank without
  // rows still gets its empty batch, which needs a task. A ready batch is
  // filled as a whole, by one task.
  uint64_t units() const {
    if (run->ready_ != nullptr) return 1;
    return std::max<uint64_t>(1, slice.units.count());
  }

  // Called by the thread of the only task. ReadySet::Fill() returns when the
  // payload is complete, whichever thread has written it.
  void FillReady() {
    run->ready_->Fill(step);
    if (run->refers()) return;
    std::memcpy(payload->data(), run->ready_->payload(step)->data(),
                payload->bytes());
  }

  const std::shared_ptr<StepRun> run;
  const uint64_t step;
  const plan::StepRows rows;
  const batch::BatchLayout::Placed placed;
  // Moved out by Deliver(), otherwise reset by the last Complete(). So the
  // memory is free even if parked lambdas or the caller still hold the job.
  std::shared_ptr<batch::BatchPayload> payload;
  const BatchSlice slice;
  // Units that Complete() has not counted. A parked unit is among them, so the
  // batch cannot finish without it.
  std::atomic<uint64_t> units_left;
  // Rows left empty under the policy ZERO. Added with relaxed order; units_left
  // orders the additions.
  std::atomic<uint64_t> emptied_rows{0};
  Times times;
  // Upper bound passed to the scheduler; constant after the constructor.
  uint64_t units_per_task = 1;
  // Absent: the thread that fills a row reads its samples. Constant after the
  // constructor.
  std::optional<BatchReads> reads;

  // Keeps the memory for a parked unit until the unit's new task takes it.
  // Called before that task is added, so the scheduler's lock orders the two.
  // The acquire in Take() matters only to tasks that were never parked, and
  // those find no entry in either case.
  void Bring(uint64_t unit, decode::LargeImageGate::Admission admission) {
    MutexLock lock(mu);
    admissions[unit] = std::move(admission);
    some_are_parked.store(true, std::memory_order_release);
  }
  // The memory that Bring() has kept for the unit, or an empty admission.
  decode::LargeImageGate::Admission Take(uint64_t unit) {
    if (!some_are_parked.load(std::memory_order_acquire)) return {};
    MutexLock lock(mu);
    auto found = admissions.extract(unit);
    return found.empty() ? decode::LargeImageGate::Admission()
                         : std::move(found.mapped());
  }

  // A thread starts with a row or a read of the batch. The first thread wins
  // the exchange, and only that thread writes began_at_ and idle_before_.
  // Relaxed order suffices: the thread counts its units or samples later with
  // release, and FillMakeTimes() runs on the thread that has acquired all
  // counts.
  void NoteBegin(std::chrono::steady_clock::time_point now) {
    if (begun_.load(std::memory_order_relaxed) ||
        begun_.exchange(true, std::memory_order_relaxed)) {
      return;
    }
    Times::Add(times.wait_thread, now - times.granted);
    began_at_ = now;
    idle_before_ = IdleThreadSeconds();
  }
  // Called by the thread that has counted the last unit.
  void FillMakeTimes(StageMicros* stages) const {
    if (!begun_.load(std::memory_order_relaxed)) return;
    const double make = Seconds(SteadyTime::clock::now() - began_at_);
    const double idle = (IdleThreadSeconds() - idle_before_) /
                        run->services_->scheduler->threads();
    // At least 1, because 0 means "not measured".
    stages->set_make(static_cast<uint64_t>(1e6 * make) + 1);
    stages->set_idle(std::min(static_cast<uint64_t>(1e6 * std::max(0.0, idle)),
                              stages->make()));
  }

 private:
  // Sum over all worker threads of the time without work or blocked in their
  // own reads.
  double IdleThreadSeconds() const {
    return run->services_->scheduler->IdleThreadSeconds() +
           1e-9 * static_cast<double>(
                      run->services_->tally->storage_wait_nanos.load(
                          std::memory_order_relaxed));
  }

  // Decides once whether this batch is read ahead. Later changes of ReadPace
  // affect later batches.
  void PlanReads() {
    const BuiltPipeline& pipeline = *run->pipeline_;
    ReadAhead* const ahead = run->services_->ahead;
    const bool may_wait =
        ahead != nullptr && run->ready_ == nullptr && slice.units.count() > 0;
    const uint64_t rows_of_unit = slice.units.pairs ? 2 : 1;
    units_per_task = units();
    if (may_wait && pipeline.pace().wait() == storage::ReadWait::kRead) {
      units_per_task = kMaxWaitingRowsPerTask / rows_of_unit;
    }
    if (may_wait && pipeline.pace().ahead()) {
      const uint64_t ready_together = std::max<uint64_t>(
          1,
          std::min({pipeline.rows_per_task(), kMaxWaitingRowsPerTask,
                    ahead->buffers().MaxTaskSamples(pipeline.read_account())}) /
              rows_of_unit);
      reads.emplace(pipeline, run->epoch_, slice, ready_together,
                    ahead->buffers());
    }
  }

  // Set with the first admission and never cleared. Batches without large
  // images, which are most batches, take no lock in Take().
  std::atomic<bool> some_are_parked{false};
  Mutex mu;
  // Key: the unit. An entry exists from Bring() to the unit's next task.
  std::map<uint64_t, decode::LargeImageGate::Admission> admissions
      MR_GUARDED_BY(mu);

  // begun_ is set before the other two are written. Only the thread that
  // finishes the batch reads them.
  std::atomic<bool> begun_{false};
  std::chrono::steady_clock::time_point began_at_;
  double idle_before_ = 0;
};

StepRun::StepRun(const RunServices* services,
                 std::shared_ptr<const BuiltPipeline> pipeline,
                 const StepRange& range, Engine::Callbacks callbacks,
                 std::shared_ptr<ReadySet> ready)
    : services_(services),
      pipeline_(std::move(pipeline)),
      ready_(std::move(ready)),
      range_(range),
      end_step_(range.first_step + range.step_count),
      epoch_(pipeline_->plan().ForEpoch(range.epoch)),
      callbacks_(std::move(callbacks)),
      lane_(std::make_shared<Scheduler::Lane>(range.sharer, range.first_step)),
      read_lane_(
          std::make_shared<Scheduler::Lane>(range.sharer, range.first_step)),
      next_step_(range.first_step) {}

uint64_t StepRun::MaxOpen() const {
  // For each worker, one batch in progress and one to continue with, in case
  // each batch is a single task. The additional 2 keep clients supplied on a
  // server with few threads while one batch waits for its last row. A choice.
  uint64_t batches = 2 * uint64_t{services_->scheduler->threads()} + 2;
  if (ready_ == nullptr && services_->ahead != nullptr &&
      pipeline_->pace().ahead()) {
    // Two samples for each reader, in batches: while some batches are read,
    // others are filled, so neither readers nor workers wait for the other.
    const uint64_t rows = std::max<uint64_t>(
        1, pipeline_->plan().steps().MaxRows(range_.world_size));
    batches += (2 * uint64_t{services_->ahead->threads()} + rows - 1) / rows;
  }
  return batches;
}

void StepRun::Admit() {
  const uint64_t max_open = MaxOpen();
  while (true) {
    uint64_t step;
    {
      MutexLock lock(mu_);
      if (ended_ || waiting_ || next_step_ == end_step_ || open_ >= max_open) {
        break;
      }
      waiting_ = true;
      due_ = SteadyTime::clock::now();
      step = next_step_;
    }
    // From here until waiting_ is cleared, this thread, or the request that it
    // leaves in the queue, owns the reservation of `step`.
    const auto rows =
        pipeline_->plan().steps().Rows(step, range_.rank, range_.world_size);
    MR_CHECK(rows.ok()) << "Start() has checked the range: " << rows.status();
    const uint64_t bytes = refers() ? BuiltPipeline::kBatchOverheadBytes
                                    : pipeline_->ReservedBytes(rows->rows);
    ByteBudget::Reservation reservation;
    // Not under mu_: a grant runs the callback of a waiting request, of this
    // run or of another one.
    if (services_->budget->TryReserve(bytes, &reservation)) {
      Granted(step, *rows, std::move(reservation));
      continue;
    }
    // The callback may run before ReserveAsync() returns, on this thread or on
    // another one, and it calls Admit() itself. So this call ends here in any
    // case.
    const ByteBudget::Ticket ticket = services_->budget->ReserveAsync(
        bytes, [self = shared_from_this(), step,
                rows = *rows](ByteBudget::Reservation granted) {
          self->Granted(step, rows, std::move(granted));
          self->Admit();
        });
    if (ticket == 0) return;  // granted; its callback has continued
    bool cancel = false;
    {
      MutexLock lock(mu_);
      // If the condition is false, the grant has come in the meantime:
      // Granted() has cleared waiting_, or a later Admit() has made a further
      // step due. That step has a ticket of its own, so nothing is set here.
      if (waiting_ && next_step_ == step) {
        if (ended_) {
          // Stop() was called before there was a ticket to cancel.
          cancel = true;
        } else {
          ticket_ = ticket;
          if (services_->admission_timeout > absl::ZeroDuration()) {
            // Set under mu_, so that neither the grant nor the timer finds the
            // request without its timer. Otherwise Granted() would not cancel
            // the timer.
            timer_ =
                services_->timer->After(services_->admission_timeout,
                                        [weak = weak_from_this(), step, bytes] {
                                          if (auto self = weak.lock())
                                            self->TimedOut(step, bytes);
                                        });
          }
        }
      }
    }
    // False: the callback runs or will run. It clears waiting_ and calls
    // Admit().
    if (cancel && services_->budget->CancelWait(ticket)) {
      MutexLock lock(mu_);
      waiting_ = false;
    }
    break;
  }
  FinishIfDone();
}

void StepRun::Granted(uint64_t step, const plan::StepRows& rows,
                      ByteBudget::Reservation reservation) {
  DeadlineTimer::Id timer;
  bool drop;
  const SteadyTime now = SteadyTime::clock::now();
  Nanos wait_memory;
  {
    MutexLock lock(mu_);
    waiting_ = false;
    wait_memory = now - due_;
    if (step == range_.first_step) wait_memory += range_.waited;
    ticket_ = 0;
    timer = std::exchange(timer_, 0);
    // Decided under the lock under which Stop() sets ended_: a step that is not
    // dropped is counted in open_ before Stop() checks it. So on_done waits for
    // the step's job, even if the job reaches the scheduler after Stop() has
    // emptied the lanes. Its tasks then find stopped_ set and fill nothing.
    drop = ended_;
    if (!drop) {
      ++next_step_;
      ++open_;
    }
  }
  // The cancel may fail: a TimedOut() that runs anyway finds that the step is
  // no longer due.
  if (timer != 0) services_->timer->Cancel(timer);
  if (drop) return;  // the reservation is returned
  // `now` and not the current time: creating the job (it allocates the payload)
  // is not a wait for memory.
  auto job = std::make_shared<Job>(shared_from_this(), step, rows,
                                   std::move(reservation), now, wait_memory);
  // After Add() the batch may be delivered and the job gone, so the arguments
  // are copied before.
  if (job->reads) {
    const uint64_t samples = job->reads->count();
    const uint64_t samples_per_task = job->reads->samples_per_task();
    if (!services_->ahead->Add(read_lane_, job, samples, samples_per_task,
                               step)) {
      // The engine is ending, and the run was cancelled at this moment. The
      // units go to the workers, which give them up.
      ReadDone({.job = std::move(job), .begin = 0, .end = samples});
    }
    return;
  }
  const uint64_t units = job->units();
  const uint64_t units_per_task = job->units_per_task;
  services_->scheduler->Add(lane_, std::move(job), 0, units, units_per_task,
                            step);
}

void StepRun::Read(const Scheduler::Task& task, WorkerState& reader) {
  Job& job = static_cast<Job&>(*task.job);
  StepRun& run = *job.run;
  if (!run.stopped_.load(std::memory_order_relaxed)) {
    const SteadyTime now = SteadyTime::clock::now();
    job.NoteBegin(now);
    ReadAhead& ahead = *run.services_->ahead;
    const BatchReads::Took took =
        job.reads->Read(task.begin, task.end, reader, ahead.gates());
    ahead.NoteReads(task.end - task.begin, took.all - took.at_gates);
    Times::Add(job.times.read, took.all);
    run.services_->clock->Add(StageClock::READ, Seconds(took.all), 0);
  }
  // Also called when the run is stopped: the units of these samples are counted
  // only when they reach the scheduler.
  run.ReadDone(task);
}

void StepRun::ReadDone(const Scheduler::Task& task) {
  Job& job = static_cast<Job&>(*task.job);
  job.reads->Done(task.begin, task.end, [&](uint64_t from, uint64_t to) {
    // Added as one task: all of its samples are read, and they hold room in the
    // buffers that readers may wait for.
    services_->scheduler->Add(lane_, task.job, from, to, to - from, job.step);
  });
}

void StepRun::TimedOut(uint64_t step, uint64_t bytes) {
  ByteBudget::Ticket ticket;
  {
    MutexLock lock(mu_);
    if (!waiting_ || next_step_ != step || ticket_ == 0) return;
    // From here on the request may be granted or cancelled. CancelWait()
    // decides.
    ticket = ticket_;
  }
  // After a successful CancelWait(), this thread owns waiting_: no other thread
  // clears it, and FinishIfDone() does nothing until it is cleared below.
  if (!services_->budget->CancelWait(ticket)) return;
  services_->tally->refused_admissions.fetch_add(1, std::memory_order_relaxed);
  {
    MutexLock lock(mu_);
    waiting_ = false;
    ticket_ = 0;
    timer_ = 0;
    // stopped_ is not set, because the steps before this one are delivered.
    ended_ = true;
    if (status_.ok()) {
      status_ = absl::ResourceExhaustedError(absl::StrCat(
          "no memory for step ", step, ": ", FormatByteSize(bytes),
          " of the server's memory budget of ",
          FormatByteSize(services_->budget->capacity()),
          " were not free within ",
          absl::FormatDuration(services_->admission_timeout), ": retry"));
    }
  }
  FinishIfDone();
}

void StepRun::Stop(absl::Status status) {
  ByteBudget::Ticket ticket;
  DeadlineTimer::Id timer;
  {
    MutexLock lock(mu_);
    // Only one caller continues. stopped_ is set before the lanes are emptied,
    // so a task that is added later finds it set.
    if (done_ || stopped_.exchange(true)) return;
    if (status_.ok()) status_ = std::move(status);
    ended_ = true;
    // Both are taken out. A TimedOut() may already have a copy of the ticket;
    // CancelWait() succeeds for only one of the two threads.
    ticket = std::exchange(ticket_, 0);
    timer = std::exchange(timer_, 0);
  }
  if (timer != 0) services_->timer->Cancel(timer);
  if (ticket != 0 && services_->budget->CancelWait(ticket)) {
    MutexLock lock(mu_);
    waiting_ = false;
  }
  // The reads are removed first. Their units are then in lane_ or with a thread
  // that is still reading. That thread adds its units later, and their tasks
  // find stopped_ set.
  if (services_->ahead != nullptr) {
    for (const Scheduler::Task& task : services_->ahead->Remove(read_lane_)) {
      ReadDone(task);
    }
  }
  for (const Scheduler::Task& task : services_->scheduler->Remove(lane_)) {
    Job& job = static_cast<Job&>(*task.job);
    // The admission is left here and not in the job's destructor: the lambda of
    // another parked unit may hold the job, and that lambda may be waiting for
    // this room.
    job.Take(task.begin).Leave();
    if (job.reads) job.reads->Release(task.begin, task.end);
    Complete(job, task.end - task.begin);
  }
  FinishIfDone();
}

void StepRun::Work(const Scheduler::Task& task, WorkerState& worker) {
  Job& job = static_cast<Job&>(*task.job);
  StepRun& run = *job.run;
  if (run.ready_ != nullptr) {
    if (!run.stopped_.load(std::memory_order_relaxed)) {
      job.NoteBegin(std::chrono::steady_clock::now());
      job.FillReady();
    }
    run.Complete(job, 1);
    return;
  }
  const RowUnits& units = job.slice.units;
  const uint64_t end = std::min(task.end, units.count());
  uint64_t unit = task.begin;
  uint64_t parked = 0;
  LargeImages& large = worker.large_images();
  // A parked unit is a task of only that unit. No task that begins with another
  // unit finds an admission here.
  large.admission = job.Take(task.begin);
  if (!run.stopped_.load(std::memory_order_relaxed) && task.begin < end) {
    const SteadyTime start = SteadyTime::clock::now();
    job.NoteBegin(start);
    const BuiltPipeline& pipeline = *run.pipeline_;
    // Blocking of this thread by storage matters only if the engine could read
    // ahead instead.
    ReadPace* const pace =
        run.services_->ahead != nullptr &&
                pipeline.pace().wait() != storage::ReadWait::kNever
            ? &pipeline.pace()
            : nullptr;
    const bool reads_itself =
        !job.reads && pipeline.pace().wait() != storage::ReadWait::kNever;
    const bool watches_switches = pace != nullptr && reads_itself &&
                                  pace->wait() == storage::ReadWait::kRead;
    const ThreadWaits before =
        reads_itself ? ThreadWaits::Now() : ThreadWaits();
    RowFiller filler(pipeline, run.epoch_, job.slice, worker,
                     run.services_->tally->bad_list,
                     job.reads ? &*job.reads : nullptr);
    absl::Status status = filler.Begin();
    uint64_t rows = 0;
    for (; unit < end && status.ok(); ++unit) {
      if (run.stopped_.load(std::memory_order_relaxed)) break;
      status = filler.Fill(unit);
      // Released before the unit is parked: another thread may fill the unit at
      // once and must not find samples that this thread releases. That thread
      // reads them again, because other readers may wait for the room.
      if (job.reads) job.reads->Release(unit, unit + 1);
      if (const int64_t bytes = std::exchange(large.wanted, 0); bytes > 0) {
        // The thread continues with other units instead of waiting for the
        // memory. First it leaves its own admission: the gate lets nobody pass
        // the unit that is next, so a thread that held memory while its unit
        // waits could block the units before it.
        status = absl::OkStatus();
        large.admission.Leave();
        ++parked;
        run.Park(task.job, unit, bytes);
        continue;
      }
      rows += units.end(unit) - units.begin(unit);
    }
    if (filler.emptied_rows() > 0) {
      job.emptied_rows.fetch_add(filler.emptied_rows(),
                                 std::memory_order_relaxed);
    }
    if (filler.bad_samples() > 0) {
      run.services_->tally->bad_samples.fetch_add(filler.bad_samples(),
                                                  std::memory_order_relaxed);
    }
    ImageStage::Scratch::Times images;
    const bool has_images = worker.scratch() != nullptr;
    if (has_images) images = worker.scratch()->TakeTimes();
    const SteadyTime now = SteadyTime::clock::now();
    const Nanos took = now - start;
    const Nanos decode = FromSeconds(images.decode_seconds);
    const Nanos augment = FromSeconds(images.augment_seconds);
    const Nanos read = std::max(took - decode - augment, Nanos(0));
    StageClock& clock = *run.services_->clock;
    clock.Add(StageClock::READ, Seconds(read), rows);
    Times::Add(job.times.read, read);
    if (has_images && pipeline.has_stages()) {
      clock.Add(StageClock::DECODE, images.decode_seconds, rows);
      clock.Add(StageClock::AUGMENT, images.augment_seconds, rows);
      Times::Add(job.times.decode, decode);
      Times::Add(job.times.augment, augment);
    }
    bool waited = false;
    if (reads_itself) {
      const ThreadWaits after = ThreadWaits::Now();
      waited = after.switches != before.switches;
      if (waited || after.page_reads != before.page_reads) {
        const int64_t without_cpu =
            took.count() - (after.cpu_nanos - before.cpu_nanos);
        run.services_->tally->storage_wait_nanos.fetch_add(
            std::clamp<int64_t>(without_cpu, 0, read.count()),
            std::memory_order_relaxed);
      }
    }
    if (pace != nullptr) {
      pace->NoteWork(rows, took.count());
      if (watches_switches) {
        pace->NoteWait(rows, waited ? read.count() : 0);
      } else if (!job.reads) {
        WatchPages(worker.page_watch(), rows, now, *pace);
      }
    }
    // The first error of any task becomes the error of the run; Stop() ignores
    // later ones.
    if (!status.ok()) run.Stop(std::move(status));
  }
  large.admission.Leave();
  // Releases the units that were not reached.
  if (job.reads) job.reads->Release(unit, end);
  // Called last: when the last unit is counted, the batch is delivered and the
  // run may end. Units that were not reached because of an error or a Stop()
  // count as given up. Parked units are counted by their next task.
  run.Complete(job, task.end - task.begin - parked);
}

decode::LargeImageGate::Place StepRun::GatePlace(uint64_t step) const {
  decode::LargeImageGate::Place place;
  place.epoch = range_.epoch;
  place.step = step;
  // A client makes several calls at a time, and its steps keep their order
  // across these.
  if (const Sharer* const sharer = range_.sharer.get(); sharer != nullptr) {
    place.line =
        absl::StrCat(sharer->plan, " ", sharer->peer, " ", sharer->client);
  }
  return place;
}

void StepRun::Park(const std::shared_ptr<Scheduler::Job>& job, uint64_t unit,
                   int64_t bytes) {
  // `this` needs no reference, because the lambda holds the job and the job
  // holds the run. If there is room, the lambda runs here, otherwise on the
  // thread that leaves the gate. While a unit waits, a thread in a task or a
  // unit in a lane holds an admission. That admission is left before the
  // scheduler ends, so the lambda also runs before that.
  services_->large_images->EnterAsync(
      bytes, GatePlace(static_cast<Job&>(*job).step),
      [this, job, unit](decode::LargeImageGate::Admission admission) {
        Job& parked = static_cast<Job&>(*job);
        parked.Bring(unit, std::move(admission));
        services_->scheduler->Add(lane_, job, unit, unit + 1, 1, parked.step);
      });
}

void StepRun::Complete(Job& job, uint64_t units) {
  if (units == 0) return;
  // Release makes the rows and times of this thread's units visible to the
  // thread that counts the last unit. Acquire lets that thread see the rows and
  // times of all others.
  if (job.units_left.fetch_sub(units, std::memory_order_acq_rel) != units) {
    return;
  }
  if (!stopped_.load(std::memory_order_relaxed)) {
    // After the last read of any file and before the batch is visible: a file
    // that has changed by now may have given this batch wrong bytes. A file
    // that changes later has not.
    if (absl::Status files = CheckFiles(job); files.ok()) {
      Deliver(job);
    } else {
      Stop(std::move(files));
    }
  }
  // Reset before open_ is decremented, so that the Admit() below finds the
  // memory of a dropped batch free.
  job.payload.reset();
  {
    MutexLock lock(mu_);
    --open_;
  }
  // Fills the place that is now free in `open_`, or finishes the run.
  Admit();
}

absl::Status StepRun::CheckFiles(const Job& job) const {
  if (ready_ != nullptr) return absl::OkStatus();  // made without files
  return pipeline_->CheckFilesOf(
      job.placed, job.payload->data(),
      job.slice.units.pairs && range_.world_size > 1);
}

void StepRun::Deliver(Job& job) {
  const SteadyTime start = SteadyTime::clock::now();
  // A ready payload is complete, and batches in transmission may share it, so
  // nothing is written to it.
  if (ready_ == nullptr) job.placed.ZeroGaps(job.payload->data());
  batch::FilledBatch batch;
  BatchHeader& header = batch.header;
  header.set_epoch(range_.epoch);
  header.set_step(job.step);
  header.set_rank(range_.rank);
  header.set_world_size(range_.world_size);
  header.set_rows(job.rows.rows);
  header.set_first_position(job.rows.first);
  header.set_local_valid(job.rows.valid -
                         job.emptied_rows.load(std::memory_order_relaxed));
  header.set_global_valid(job.rows.global_valid);
  job.placed.Describe(header);
  job.FillMakeTimes(header.mutable_stage_micros());
  if (range_.with_payload_digest) {
    header.set_payload_xxh3(
        ready_ != nullptr
            ? ready_->payload_xxh3(job.step)
            : XXH3_64bits(job.payload->data(), job.payload->bytes()));
  }
  // No task of the job is left, so no other thread reads job.payload.
  batch.payload = std::move(job.payload);
  Describe(job.times, *header.mutable_stage_micros());
  batch.whole = SteadyTime::clock::now();
  services_->clock->Add(StageClock::BATCH, Seconds(batch.whole - start),
                        job.rows.rows);
  callbacks_.on_batch(std::move(batch));
}

void StepRun::Describe(const Times& times, StageMicros& micros) {
  const auto sum = [](const std::atomic<uint64_t>& nanos) {
    return Micros(nanos.load(std::memory_order_relaxed));
  };
  micros.set_read(sum(times.read));
  micros.set_decode(sum(times.decode));
  micros.set_augment(sum(times.augment));
  micros.set_wait_memory(Micros(times.wait_memory.count()));
  micros.set_wait_thread(sum(times.wait_thread));
}

void StepRun::FinishIfDone() {
  absl::Status status;
  {
    MutexLock lock(mu_);
    if (done_ || waiting_ || open_ > 0 ||
        !(ended_ || next_step_ == end_step_)) {
      return;
    }
    // Set under the lock: if several callers find nothing left, only one posts.
    done_ = true;
    if (absl::IsResourceExhausted(status_)) {
      // Also for a single allocation that failed. A client treats
      // ResourceExhausted without a delay as final.
      status_ = WithRetryHint(std::move(status_), "pipeline");
    }
    // Moved, not copied: the receiver may be on another thread, and
    // ThreadSanitizer does not see the library that changes the reference count
    // of a Status.
    status = std::exchange(status_, absl::OkStatus());
  }
  // Posted and not called: this thread may be in a callback of another run,
  // deep in the budget's Pump(), and on_done may call anything. Every batch was
  // delivered to on_batch before open_ was decremented, so on_done is the last
  // callback.
  services_->scheduler->Post(
      [self = shared_from_this(), status = std::move(status)]() mutable {
        self->callbacks_.on_done(std::move(status));
      });
}

}  // namespace millrace::pipeline
