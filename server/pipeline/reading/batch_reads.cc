#include "server/pipeline/reading/batch_reads.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "server/pipeline/threads/thread_waits.h"

namespace millrace::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

// Upper bound of the samples in one task where a read touches pages
// (ReadWait::kPages): the system reads neighbouring pages together, and a
// handover for each page would cost more than the page. A choice.
constexpr uint64_t kMaxPageSamples = 32;

uint64_t SamplesPerUnit(const BatchSlice& slice) {
  return slice.units.pairs ? 2 : 1;
}

// The position of samples_[0]. A pair may begin in the rows of another rank.
uint64_t FirstPosition(const BatchSlice& slice) {
  return slice.first - (slice.units.odd ? 1 : 0);
}

}  // namespace

BatchReads::BatchReads(const BuiltPipeline& pipeline,
                       const plan::Plan::Epoch& epoch, const BatchSlice& slice,
                       uint64_t units_per_task, SampleBuffers& buffers)
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
  // Counts down to 0 as samples arrive. The thread that brings the last sample
  // makes the units of the task ready. No other thread sees this object yet.
  for (uint64_t task = 0; task < left_.size(); ++task) {
    left_[task] =
        std::min<uint64_t>(per_task, samples_.size() - task * per_task);
  }
  buffers_.Enter(pipeline_.read_account());
}

BatchReads::~BatchReads() {
  // No thread reads or works any more, because each would hold the job that
  // owns this object.
  for (FetchedSample* sample : samples_) buffers_.Give(sample);
  buffers_.Leave(pipeline_.read_account());
}

uint64_t BatchReads::samples_per_task() const {
  // A read that blocks is a task of its own, so that the waits overlap. Several
  // pages are read in one task, but at least eight threads share the samples of
  // a worker's task.
  if (pipeline_.pace().wait() == storage::ReadWait::kRead) return 1;
  return std::clamp<uint64_t>(units_per_task_ * samples_per_unit_ / 8, 1,
                              kMaxPageSamples);
}

bool BatchReads::Needs(uint64_t position) const {
  if (position >= slice_.first && position - slice_.first < slice_.units.rows) {
    return true;
  }
  // The partner of a row may be in another rank's slice. It is read only if
  // this step mixes and the partner is in the global batch.
  return slice_.mix.kind != augment::BatchMix::NONE &&
         position - slice_.step_first < slice_.global_rows;
}

BatchReads::Took BatchReads::Read(uint64_t begin, uint64_t end,
                                  WorkerState& reader, ReadGates& gates) {
  const Clock::time_point start = Clock::now();
  // Voluntary context switches: a read that blocked has caused one.
  const uint64_t switches = ThreadWaits::Now().switches;
  std::chrono::nanoseconds for_room{0}, at_gates{0};
  for (uint64_t i = begin; i < end; ++i) {
    if (!Needs(first_ + i)) continue;
    const plan::SampleRef ref = epoch_.At(first_ + i);
    if (!ref.valid) continue;
    const auto& source = pipeline_.shared_source(ref.source);
    const storage::ReadWait wait = source->read_wait();
    if (wait == storage::ReadWait::kNever) continue;
    // After an error samples_[i] stays null: the worker reads the sample
    // itself, gets the error again and reports it with the row.
    auto found = reader.ReaderOf(source);
    if (!found.ok()) continue;
    storage::RecordReader& records = **found;
    const std::vector<bool>& used = pipeline_.used_fields(ref.source);
    if (!records.UseFields(used).ok()) continue;
    if (wait == storage::ReadWait::kPages) {
      records.Prefetch(ref.index);
      continue;
    }
    // The gate comes before the turn. In the other order, a thread at the gate
    // could have an older turn than the thread inside, which then waits for
    // room until the older turn has continued: a deadlock.
    const ReadGates::Pass pass(gates, *source);
    at_gates += pass.waited();
    SampleBuffers::Turn turn(buffers_, pipeline_.read_account());
    // If the size is known, the thread waits for room before it reads, so that
    // it holds no file meanwhile and reads it once.
    const uint64_t bytes = source->BytesOf(ref.index, used);
    const bool room =
        bytes == 0 ? turn.MayFindRoom() : turn.AwaitRoomFor(bytes, used.size());
    if (!room) {  // the worker reads this sample itself and needs no copy
      for_room += turn.waited();
      continue;
    }
    FetchedSample* sample = nullptr;
    // The readers of a source with a gate share memory: a thread that waited
    // for room during the visit could block the reader that a worker waits for.
    // For these sources the copy is only tried. Without room, the visit ends,
    // the thread waits outside and reads the sample again.
    const bool may_wait = source->max_concurrent_reads() == 0;
    const auto copy = [&](const storage::EncodedSample& read) {
      sample = may_wait ? turn.Copy(read) : turn.TryCopy(read);
      return absl::OkStatus();
    };
    absl::Status status = records.Read(ref.index, copy);
    if (status.ok() && sample == nullptr && turn.AwaitRoom()) {
      status = records.Read(ref.index, copy);
    }
    // The copy is complete, so the reader releases what it holds of the source
    // (a row group) before this thread continues.
    records.Release();
    // Only this task writes samples_[i]; Done() publishes it. Null for a sample
    // that was given up: the worker reads it.
    samples_[i] = status.ok() ? sample : turn.Fail(std::move(status));
    for_room += turn.waited();
  }
  // A wait for room means that the workers are the bottleneck, not the storage.
  // So a task that waited for room reports nothing to ReadPace.
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
  // One task of a reader may overlap several tasks of the workers.
  while (begin < end) {
    const uint64_t task = begin / per_task;
    const uint64_t to = std::min(end, (task + 1) * per_task);
    const uint64_t count = to - begin;
    // Release publishes this thread's entries of samples_. Acquire lets the
    // thread that brings the last sample see the entries of the others. The
    // scheduler's lock passes them on to the workers.
    if (left_[task].fetch_sub(count, std::memory_order_acq_rel) == count) {
      // Before the units are added to the scheduler, because a worker may give
      // samples back from then on.
      buffers_.Ready(
          absl::MakeConstSpan(samples_).subspan(task * per_task, per_task));
      ready(task * units_per_task_,
            std::min(units, (task + 1) * units_per_task_));
    }
    begin = to;
  }
}

void BatchReads::Release(uint64_t from, uint64_t to) {
  // Only the thread that owns the units calls this, after their reads are done.
  // At() of other units reads other entries.
  for (uint64_t i = from * samples_per_unit_; i < to * samples_per_unit_; ++i) {
    buffers_.Give(std::exchange(samples_[i], nullptr));
  }
}

}  // namespace millrace::pipeline
