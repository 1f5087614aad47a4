#include "server/pipeline/reading/batch_reads.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/types/span.h"
#include "server/pipeline/threads/thread_waits.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

// Upper bound of the samples in one task where reading means to touch pages
// (ReadWait::kPages): the system reads neighbouring pages together, and a
// hand-over for each page would cost more than the page. A choice.
constexpr uint64_t kMaxPageSamples = 32;

uint64_t SamplesPerUnit(const BatchSlice& slice) {
  return slice.units.pairs ? 2 : 1;
}

// The position of samples_[0]. A pair may begin in another rank's rows.
uint64_t FirstPosition(const BatchSlice& slice) {
  return slice.first - (slice.units.odd ? 1 : 0);
}

}  // namespace

BatchReads::BatchReads(const BuiltPipeline& pipeline, const Plan::Epoch& epoch,
                       const BatchSlice& slice, uint64_t units_per_task,
                       SampleBuffers& buffers)
    : pipeline_(pipeline),
      epoch_(epoch),
      slice_(slice),
      buffers_(buffers),
      samples_per_unit_(SamplesPerUnit(slice)),
      units_per_task_(units_per_task),
      first_(FirstPosition(slice)),
      samples_(slice.units.count() * samples_per_unit_),
      left_((slice.units.count() + units_per_task - 1) / units_per_task) {
  const uint64_t per_task = units_per_task_ * samples_per_unit_;
  // Counts down to 0 as samples come; the thread that brings the last one makes
  // the task's units ready. No other thread sees the object yet.
  for (uint64_t task = 0; task < left_.size(); ++task) {
    left_[task] =
        std::min<uint64_t>(per_task, samples_.size() - task * per_task);
  }
  buffers_.Enter(pipeline_.read_account());
}

BatchReads::~BatchReads() {
  // No thread reads or works any more: each holds the job that owns this.
  for (FetchedSample* sample : samples_) buffers_.Give(sample);
  buffers_.Leave(pipeline_.read_account());
}

uint64_t BatchReads::samples_per_task() const {
  // A read that blocks is a task by itself, so that the waits overlap. Pages
  // are taken several at a time, but so that eight threads share a task's
  // samples.
  if (pipeline_.pace().wait() == ReadWait::kRead) return 1;
  return std::clamp<uint64_t>(units_per_task_ * samples_per_unit_ / 8, 1,
                              kMaxPageSamples);
}

bool BatchReads::Needs(uint64_t position) const {
  if (position >= slice_.first && position - slice_.first < slice_.units.rows) {
    return true;
  }
  // The partner of a row may be in the slice of another rank; it is read only
  // if this step mixes, and if the global batch has it.
  return slice_.mix.kind != BatchMix::NONE &&
         position - slice_.step_first < slice_.global_rows;
}

BatchReads::Took BatchReads::Read(uint64_t begin, uint64_t end,
                                  WorkerState& reader, ReadGates& gates) {
  const Clock::time_point start = Clock::now();
  // Voluntary context switches: a read that blocked has made one.
  const uint64_t switches = ThreadWaits::Now().switches;
  std::chrono::nanoseconds for_room{0}, at_gates{0};
  for (uint64_t i = begin; i < end; ++i) {
    if (!Needs(first_ + i)) continue;
    const SampleRef ref = epoch_.At(first_ + i);
    if (!ref.valid) continue;
    const auto& source = pipeline_.shared_source(ref.source);
    const ReadWait wait = source->read_wait();
    if (wait == ReadWait::kNever) continue;
    // An error here leaves samples_[i] null: the worker reads the sample
    // itself, meets the error again and reports it, with the row.
    auto found = reader.ReaderOf(source);
    if (!found.ok()) continue;
    RecordReader& records = **found;
    if (!records.UseFields(pipeline_.used_fields(ref.source)).ok()) continue;
    if (wait == ReadWait::kPages) {
      records.Prefetch(ref.index);
      continue;
    }
    // The gate before the turn. In the other order a thread at the gate could
    // have an older turn than the thread inside, which then waits for room
    // until that older turn has gone on: neither ever would.
    const ReadGates::Pass pass(gates, *source);
    at_gates += pass.waited();
    SampleBuffers::Turn turn(buffers_, pipeline_.read_account());
    // Left to the worker, which needs no copy.
    if (!turn.MayFindRoom()) continue;
    FetchedSample* sample = nullptr;
    // Sources with a gate have readers that need each other's memory: a thread
    // that waited for room inside the visit could block the reader that a
    // worker waits for. There the copy is tried; without room the visit ends,
    // the thread waits outside and reads the sample once more.
    const bool may_wait = source->max_concurrent_reads() == 0;
    const auto copy = [&](const EncodedSample& read) {
      sample = may_wait ? turn.Copy(read) : turn.TryCopy(read);
      return absl::OkStatus();
    };
    absl::Status status = records.Read(ref.index, copy);
    if (status.ok() && sample == nullptr && turn.AwaitRoom()) {
      status = records.Read(ref.index, copy);
    }
    // The copy is made: what the reader holds of the source (a row group) is
    // free before this thread does anything else.
    records.Release();
    // Sample i belongs to this task; Done() publishes it. Null where it was
    // given up: the worker reads it.
    samples_[i] = status.ok() ? sample : turn.Fail(std::move(status));
    for_room += turn.waited();
  }
  // Waiting for room says that workers are the bottleneck, not storage: such a
  // task tells ReadPace nothing.
  const std::chrono::nanoseconds took = Clock::now() - start - for_room;
  if (for_room.count() == 0) {
    const bool waited = ThreadWaits::Now().switches != switches;
    pipeline_.pace().NoteWait(end - begin, waited ? took.count() : 0);
  }
  return {took, at_gates};
}

void BatchReads::Done(
    uint64_t begin, uint64_t end,
    absl::FunctionRef<void(uint64_t from, uint64_t to)> ready) {
  const uint64_t per_task = units_per_task_ * samples_per_unit_;
  const uint64_t units = samples_.size() / samples_per_unit_;
  // The range of a reader's task may touch several tasks of the workers.
  while (begin < end) {
    const uint64_t task = begin / per_task;
    const uint64_t to = std::min(end, (task + 1) * per_task);
    const uint64_t count = to - begin;
    // Release publishes this thread's entries of samples_; acquire lets the
    // thread that brings the last one see those of the others. Its scheduler's
    // lock hands them on to the workers.
    if (left_[task].fetch_sub(count, std::memory_order_acq_rel) == count) {
      // Before the units are given to the scheduler: from then on a worker may
      // give samples back at any time.
      buffers_.Ready(
          absl::MakeConstSpan(samples_).subspan(task * per_task, per_task));
      ready(task * units_per_task_,
            std::min(units, (task + 1) * units_per_task_));
    }
    begin = to;
  }
}

void BatchReads::Release(uint64_t from, uint64_t to) {
  // Only the thread that owns the units calls this, once their reads are done;
  // At() of other units reads other entries.
  for (uint64_t i = from * samples_per_unit_; i < to * samples_per_unit_; ++i) {
    buffers_.Give(std::exchange(samples_[i], nullptr));
  }
}

}  // namespace millrace
