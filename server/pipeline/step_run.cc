#include "server/pipeline/step_run.h"

#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "proto/error_detail.h"
#include "server/pipeline/batch_reads.h"
#include "server/pipeline/row_filler.h"
#include "server/pipeline/thread_waits.h"

namespace millrace {
namespace {

using Nanos = std::chrono::nanoseconds;

// When a client whose request found no room should ask again.
constexpr int64_t kRetryDelayMs = 500;

// Of a source that may wait itself: a wait that begins is noticed after so many
// rows.
constexpr uint64_t kMaxWaitingRowsPerTask = 64;

// How often a thread asks the system which pages it had to wait for, and about
// how long one takes.
constexpr int64_t kPageWatchNanos = 1'000'000;
constexpr uint64_t kNanosOfPage = 100'000;

double Seconds(Nanos nanos) {
  return std::chrono::duration<double>(nanos).count();
}

Nanos FromSeconds(double seconds) {
  return std::chrono::duration_cast<Nanos>(
      std::chrono::duration<double>(seconds));
}

uint64_t Micros(uint64_t nanos) { return (nanos + 999) / 1000; }

// Notes the pages that a thread which works on samples has waited for itself.
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

// Where the time of a batch goes. Threads add to it.
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

// A batch under way.
class StepRun::Job final : public Scheduler::Job {
 public:
  // `granted`: since when it has its memory, which it had been due for
  // `wait_memory` before.
  Job(std::shared_ptr<StepRun> run, uint64_t step, const StepRows& rows,
      ByteBudget::Reservation reservation, SteadyTime granted,
      Nanos wait_memory)
      : run(std::move(run)),
        step(step),
        rows(rows),
        placed(this->run->pipeline_->layout().ForRows(rows.rows)),
        payload(this->run->refers()
                    ? Refer(this->run->ready_, step, std::move(reservation))
                    : std::make_shared<BatchPayload>(
                          placed.payload_bytes(), std::move(reservation),
                          this->run->parts_->pool, this->run->range_.memory)),
        slice(SliceOf(*this->run->pipeline_, this->run->range_.epoch, step,
                      rows, placed, payload->data())),
        units_left(units()) {
    times.granted = granted;
    times.wait_memory = wait_memory;
    PlanReads();
  }

  // A rank without rows still gets its (empty) batch: one unit of no row.
  // A ready one is filled at once.
  uint64_t units() const {
    if (run->ready_ != nullptr) return 1;
    return std::max<uint64_t>(1, slice.units.count());
  }

  void FillReady() {
    run->ready_->Fill(step);
    if (run->refers()) return;
    std::memcpy(payload->data(), run->ready_->payload(step)->data(),
                payload->bytes());
  }

  const std::shared_ptr<StepRun> run;
  const uint64_t step;
  const StepRows rows;
  const BatchLayout::Placed placed;
  std::shared_ptr<BatchPayload> payload;
  const BatchSlice slice;
  std::atomic<uint64_t> units_left;
  std::atomic<uint64_t> emptied_rows{0};
  Times times;
  uint64_t units_per_task = 1;  // at most
  // Absent: who fills the rows reads.
  std::optional<BatchReads> reads;

  // Memory for the large images of a unit that was parked until it came.
  void Bring(uint64_t unit, LargeImageGate::Admission admission) {
    MutexLock lock(mu);
    admissions[unit] = std::move(admission);
    some_are_parked.store(true, std::memory_order_release);
  }
  LargeImageGate::Admission Take(uint64_t unit) {
    if (!some_are_parked.load(std::memory_order_acquire)) return {};
    MutexLock lock(mu);
    auto found = admissions.extract(unit);
    return found.empty() ? LargeImageGate::Admission()
                         : std::move(found.mapped());
  }

  // A thread begins with a row.
  void NoteBegin(std::chrono::steady_clock::time_point now) {
    if (begun_.load(std::memory_order_relaxed) ||
        begun_.exchange(true, std::memory_order_relaxed)) {
      return;
    }
    Times::Add(times.wait_thread, now - times.granted);
    began_at_ = now;
    idle_before_ = IdleThreadSeconds();
  }
  // By the thread that finishes the batch.
  void FillMakeTimes(StageMicros* stages) const {
    if (!begun_.load(std::memory_order_relaxed)) return;
    const double make = Seconds(SteadyTime::clock::now() - began_at_);
    const double idle = (IdleThreadSeconds() - idle_before_) /
                        run->parts_->scheduler->threads();
    // At least 1: 0 stands for "not measured".
    stages->set_make(static_cast<uint64_t>(1e6 * make) + 1);
    stages->set_idle(std::min(static_cast<uint64_t>(1e6 * std::max(0.0, idle)),
                              stages->make()));
  }

 private:
  // Of all worker threads: without work, or in a read that waits.
  double IdleThreadSeconds() const {
    return run->parts_->scheduler->IdleThreadSeconds() +
           1e-9 * static_cast<double>(run->parts_->storage_wait_nanos.load(
                      std::memory_order_relaxed));
  }

  void PlanReads() {
    const BuiltPipeline& pipeline = *run->pipeline_;
    ReadAhead* const ahead = run->parts_->ahead.get();
    const bool may_wait =
        ahead != nullptr && run->ready_ == nullptr && slice.units.count() > 0;
    const uint64_t rows_of_unit = slice.units.pairs ? 2 : 1;
    units_per_task = units();
    if (may_wait && pipeline.pace().wait() == ReadWait::kRead) {
      units_per_task = kMaxWaitingRowsPerTask / rows_of_unit;
    }
    if (may_wait && pipeline.pace().ahead()) {
      const uint64_t ready_together = std::max<uint64_t>(
          1, std::min(pipeline.rows_per_task(), kMaxWaitingRowsPerTask) /
                 rows_of_unit);
      reads.emplace(pipeline, run->epoch_, slice, ready_together,
                    ahead->buffers());
    }
  }

  // Set with the first admission.
  std::atomic<bool> some_are_parked{false};
  Mutex mu;
  std::map<uint64_t, LargeImageGate::Admission> admissions MR_GUARDED_BY(mu);

  std::atomic<bool> begun_{false};
  std::chrono::steady_clock::time_point began_at_;
  double idle_before_ = 0;
};

StepRun::StepRun(EngineParts* parts,
                 std::shared_ptr<const BuiltPipeline> pipeline,
                 const StepRange& range, Engine::Callbacks callbacks,
                 std::shared_ptr<ReadySet> ready)
    : parts_(parts),
      pipeline_(std::move(pipeline)),
      ready_(std::move(ready)),
      range_(range),
      end_step_(range.first_step + range.step_count),
      epoch_(pipeline_->plan().ForEpoch(range.epoch)),
      callbacks_(std::move(callbacks)),
      lane_(std::make_shared<Scheduler::Lane>(range.sharer)),
      read_lane_(std::make_shared<Scheduler::Lane>(range.sharer)),
      next_step_(range.first_step) {}

uint64_t StepRun::MostOpen() const {
  // Enough for every worker to have one under way and one to go on with.
  uint64_t batches = 2 * uint64_t{parts_->scheduler->threads()} + 2;
  if (ready_ == nullptr && parts_->ahead != nullptr &&
      pipeline_->pace().ahead()) {
    // And for all that read: while some batches are read, others are worked on,
    // and none of both has to wait for the other.
    const uint64_t rows = std::max<uint64_t>(
        1, pipeline_->plan().steps().MaxRows(range_.world_size));
    batches += (2 * uint64_t{parts_->ahead->threads()} + rows - 1) / rows;
  }
  return batches;
}

void StepRun::Admit() {
  const uint64_t most_open = MostOpen();
  while (true) {
    uint64_t step;
    {
      MutexLock lock(mu_);
      if (ended_ || waiting_ || next_step_ == end_step_ || open_ >= most_open) {
        break;
      }
      waiting_ = true;
      due_ = SteadyTime::clock::now();
      step = next_step_;
    }
    const auto rows =
        pipeline_->plan().steps().Rows(step, range_.rank, range_.world_size);
    MR_CHECK(rows.ok()) << "Start() has checked the range: " << rows.status();
    const uint64_t bytes = refers() ? BuiltPipeline::kBatchOverheadBytes
                                    : pipeline_->ReservedBytes(rows->rows);
    ByteBudget::Reservation reservation;
    if (parts_->budget->TryReserve(bytes, &reservation)) {
      Granted(step, *rows, std::move(reservation));
      continue;
    }
    const ByteBudget::Ticket ticket = parts_->budget->ReserveAsync(
        bytes, [self = shared_from_this(), step,
                rows = *rows](ByteBudget::Reservation granted) {
          self->Granted(step, rows, std::move(granted));
          self->Admit();
        });
    if (ticket == 0) return;  // granted meanwhile; the callback went on
    bool cancel = false;
    {
      MutexLock lock(mu_);
      // Otherwise it has been granted already.
      if (waiting_ && next_step_ == step) {
        if (ended_) {
          cancel = true;
        } else {
          ticket_ = ticket;
          if (parts_->admission_timeout > absl::ZeroDuration()) {
            timer_ =
                parts_->timer->After(parts_->admission_timeout,
                                     [weak = weak_from_this(), step, bytes] {
                                       if (auto self = weak.lock())
                                         self->TimedOut(step, bytes);
                                     });
          }
        }
      }
    }
    if (cancel && parts_->budget->CancelWait(ticket)) {
      MutexLock lock(mu_);
      waiting_ = false;
    }
    break;
  }
  FinishIfDone();
}

void StepRun::Granted(uint64_t step, const StepRows& rows,
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
    drop = ended_;
    if (!drop) {
      ++next_step_;
      ++open_;
    }
  }
  if (timer != 0) parts_->timer->Cancel(timer);
  if (drop) return;  // the reservation goes back
  auto job = std::make_shared<Job>(shared_from_this(), step, rows,
                                   std::move(reservation), now, wait_memory);
  if (job->reads) {
    const uint64_t samples = job->reads->count();
    const uint64_t samples_per_task = job->reads->samples_per_task();
    parts_->ahead->Add(read_lane_, std::move(job), samples, samples_per_task,
                       step);
    return;
  }
  const uint64_t units = job->units();
  const uint64_t units_per_task = job->units_per_task;
  parts_->scheduler->Add(lane_, std::move(job), 0, units, units_per_task, step);
}

void StepRun::Read(const Scheduler::Task& task, WorkerState& reader) {
  Job& job = static_cast<Job&>(*task.job);
  StepRun& run = *job.run;
  if (!run.stopped_.load(std::memory_order_relaxed)) {
    const SteadyTime now = SteadyTime::clock::now();
    job.NoteBegin(now);
    ReadAhead& ahead = *run.parts_->ahead;
    const BatchReads::Took took =
        job.reads->Read(task.begin, task.end, reader, ahead.gates());
    ahead.NoteReads(task.end - task.begin, took.all - took.at_gates);
    Times::Add(job.times.read, took.all);
    run.parts_->clock.Add(StageClock::READ, Seconds(took.all), 0);
  }
  run.ReadDone(task);
}

void StepRun::ReadDone(const Scheduler::Task& task) {
  Job& job = static_cast<Job&>(*task.job);
  job.reads->Done(task.begin, task.end, [&](uint64_t from, uint64_t to) {
    parts_->scheduler->Add(lane_, task.job, from, to, to - from, job.step);
  });
}

void StepRun::TimedOut(uint64_t step, uint64_t bytes) {
  ByteBudget::Ticket ticket;
  {
    MutexLock lock(mu_);
    if (!waiting_ || next_step_ != step || ticket_ == 0) return;
    ticket = ticket_;
  }
  if (!parts_->budget->CancelWait(ticket)) return;  // it has come after all
  parts_->refused_admissions.fetch_add(1, std::memory_order_relaxed);
  ErrorDetail detail = MakeErrorDetail("pipeline");
  detail.set_retry_delay_ms(kRetryDelayMs);
  {
    MutexLock lock(mu_);
    waiting_ = false;
    ticket_ = 0;
    timer_ = 0;
    ended_ = true;  // batches under way are still delivered
    if (status_.ok()) {
      status_ = WithErrorDetail(
          absl::ResourceExhaustedError(absl::StrCat(
              "step ", step, " found no ", bytes, " bytes of the server's ",
              parts_->budget->capacity(), " bytes of memory budget within ",
              absl::FormatDuration(parts_->admission_timeout), ": ask again")),
          detail);
    }
  }
  FinishIfDone();
}

void StepRun::Stop(absl::Status status) {
  ByteBudget::Ticket ticket;
  DeadlineTimer::Id timer;
  {
    MutexLock lock(mu_);
    if (done_ || stopped_.exchange(true)) return;
    if (status_.ok()) status_ = std::move(status);
    ended_ = true;
    ticket = std::exchange(ticket_, 0);
    timer = std::exchange(timer_, 0);
  }
  if (timer != 0) parts_->timer->Cancel(timer);
  if (ticket != 0 && parts_->budget->CancelWait(ticket)) {
    MutexLock lock(mu_);
    waiting_ = false;
  }
  if (parts_->ahead != nullptr) {
    for (const Scheduler::Task& task : parts_->ahead->Remove(read_lane_)) {
      ReadDone(task);
    }
  }
  for (const Scheduler::Task& task : parts_->scheduler->Remove(lane_)) {
    Job& job = static_cast<Job&>(*task.job);
    // Now: the batch may live on in the hands of who waits for this room.
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
  uint64_t parked = 0;
  LargeImages& large = worker.large_images();
  large.admission = job.Take(task.begin);  // its only unit's
  if (!run.stopped_.load(std::memory_order_relaxed) && task.begin < end) {
    const SteadyTime start = SteadyTime::clock::now();
    job.NoteBegin(start);
    const BuiltPipeline& pipeline = *run.pipeline_;
    // What storage makes this thread wait is of interest where it could be had
    // otherwise.
    ReadPace* const pace = run.parts_->ahead != nullptr &&
                                   pipeline.pace().wait() != ReadWait::kNever
                               ? &pipeline.pace()
                               : nullptr;
    const bool reads_itself =
        !job.reads && pipeline.pace().wait() != ReadWait::kNever;
    const bool watches_switches =
        pace != nullptr && reads_itself && pace->wait() == ReadWait::kRead;
    const ThreadWaits before =
        reads_itself ? ThreadWaits::Now() : ThreadWaits();
    RowFiller filler(pipeline, run.epoch_, job.slice, worker,
                     run.parts_->bad_list, job.reads ? &*job.reads : nullptr);
    absl::Status status = filler.Begin();
    uint64_t rows = 0;
    for (uint64_t unit = task.begin; unit < end && status.ok(); ++unit) {
      if (run.stopped_.load(std::memory_order_relaxed)) break;
      status = filler.Fill(unit);
      if (const int64_t bytes = std::exchange(large.wanted, 0); bytes > 0) {
        // This thread does not wait for the memory.
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
      run.parts_->bad_samples.fetch_add(filler.bad_samples(),
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
    StageClock& clock = run.parts_->clock;
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
        run.parts_->storage_wait_nanos.fetch_add(
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
    if (!status.ok()) run.Stop(std::move(status));
  }
  large.admission.Leave();
  // Also those of parked units, which are read again: others may wait for the
  // room.
  if (job.reads) job.reads->Release(task.begin, end);
  run.Complete(job, task.end - task.begin - parked);
}

void StepRun::Park(const std::shared_ptr<Scheduler::Job>& job, uint64_t unit,
                   int64_t bytes) {
  parts_->large_images->EnterAsync(
      bytes, [this, job, unit](LargeImageGate::Admission admission) {
        Job& parked = static_cast<Job&>(*job);
        parked.Bring(unit, std::move(admission));
        parts_->scheduler->Add(lane_, job, unit, unit + 1, 1, parked.step);
      });
}

void StepRun::Complete(Job& job, uint64_t units) {
  if (units == 0) return;
  // The last one sees what the others have written.
  if (job.units_left.fetch_sub(units, std::memory_order_acq_rel) != units) {
    return;
  }
  if (!stopped_.load(std::memory_order_relaxed)) {
    // After the last read of a file and before anybody sees the batch.
    if (absl::Status files = CheckFiles(job); files.ok()) {
      Deliver(job);
    } else {
      Stop(std::move(files));
    }
  }
  job.payload.reset();  // when it was not delivered: memory for others
  {
    MutexLock lock(mu_);
    --open_;
  }
  Admit();  // and finishes the run when there is nothing left
}

absl::Status StepRun::CheckFiles(const Job& job) const {
  if (ready_ != nullptr) return absl::OkStatus();  // made without a file
  return pipeline_->CheckFilesOf(
      job.placed, job.payload->data(),
      job.slice.units.pairs && range_.world_size > 1);
}

void StepRun::Deliver(Job& job) {
  const SteadyTime start = SteadyTime::clock::now();
  // The memory of a ready one is shared, and complete.
  if (ready_ == nullptr) job.placed.ZeroGaps(job.payload->data());
  FilledBatch batch;
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
  batch.payload = std::move(job.payload);
  Describe(job.times, *header.mutable_stage_micros());
  batch.whole = SteadyTime::clock::now();
  parts_->clock.Add(StageClock::BATCH, Seconds(batch.whole - start),
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
    done_ = true;
    if (absl::IsResourceExhausted(status_)) {
      // Also where a single allocation failed. Without a delay a client takes
      // it as final.
      ErrorDetail detail = MakeErrorDetail("pipeline");
      detail.set_retry_delay_ms(kRetryDelayMs);
      status_ = WithErrorDetail(std::move(status_), detail);
    }
    // Given away, not shared: the receiver may be on another thread, and the
    // count of a status lies in a library that ThreadSanitizer cannot see.
    status = std::exchange(status_, absl::OkStatus());
  }
  parts_->scheduler->Post(
      [self = shared_from_this(), status = std::move(status)]() mutable {
        self->callbacks_.on_done(std::move(status));
      });
}

}  // namespace millrace
