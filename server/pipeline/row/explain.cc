#include "server/pipeline/row/explain.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/aligned_buffer.h"
#include "common/byte_budget.h"
#include "common/byte_size.h"
#include "common/count_text.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "proto/retry_hint.h"
#include "server/augment/parameter_log.h"
#include "server/pipeline/built_pipeline/built_pipeline.h"
#include "server/pipeline/row/bad_sample_list.h"
#include "server/pipeline/row/row_filler.h"
#include "server/pipeline/row/worker_state.h"
#include "server/plan/transforms/transforms.h"
#include "server/storage/sample_files.h"

namespace millrace::pipeline {
namespace {

// Upper bounds for one call: its rows have their own memory, and its answer
// must stay well below the size limit of a message.
constexpr uint64_t kMaxRows = 256;
constexpr uint64_t kMaxPayloadBytes = 16 << 20;

std::string TransformAt(const PipelineSpec& spec, uint32_t place) {
  return static_cast<int>(place) < spec.transforms_size()
             ? plan::TransformName(spec.transforms(static_cast<int>(place)))
             : "";
}

// The values drawn since Clear(), sample by sample in the order of processing.
class UnitLog final : public augment::ParameterLog {
 public:
  struct Sample {
    int64_t index;
    uint64_t key;
    std::vector<Drawn> drawn;
  };

  explicit UnitLog(const PipelineSpec& spec) : spec_(spec) {}

  void Clear() { samples_.clear(); }
  std::vector<Sample>& samples() { return samples_; }

  void BeginSample(int64_t index, uint64_t key) override {
    samples_.push_back({index, key, {}});
    field_.clear();
  }
  void BeginField(const std::string& field) override { field_ = field; }
  void Add(uint32_t place, std::string what) override {
    MR_CHECK(!samples_.empty()) << "a draw without a sample";
    Drawn drawn;
    drawn.set_place(place);
    drawn.set_transform(TransformAt(spec_, place));
    drawn.set_field(field_);
    drawn.set_what(std::move(what));
    // Sorted by the order of the transforms in a field, which can differ from
    // the order in which the stages draw.
    std::vector<Drawn>& list = samples_.back().drawn;
    auto at = list.end();
    while (at != list.begin() && std::prev(at)->field() == field_ &&
           std::prev(at)->place() > place) {
      --at;
    }
    list.insert(at, std::move(drawn));
  }

 private:
  const PipelineSpec& spec_;
  std::string field_;
  std::vector<Sample> samples_;
};

void FillOrigin(const storage::RecordSource& source, const std::string& dataset,
                ExplainedRow* row) {
  row->set_dataset(dataset);
  row->set_shard_row(-1);
  const DatasetInfo& info = source.info();
  if (const storage::SampleFiles* const files = source.sample_files();
      files != nullptr && row->sample() >= 0 &&
      row->sample() < info.samples()) {
    row->set_shard(files->FileOf(row->sample()));
    row->set_shard_row(0);
    return;
  }
  const auto& shards = info.shards();
  auto shard = std::upper_bound(shards.begin(), shards.end(), row->sample(),
                                [](int64_t sample, const ShardInfo& s) {
                                  return sample < s.first_sample();
                                });
  if (shard == shards.begin()) return;
  --shard;
  if (row->sample() - shard->first_sample() >= shard->samples()) return;
  row->set_shard(shard->name());
  row->set_shard_row(row->sample() - shard->first_sample());
}

// Interval at which a call that waits for memory checks whether it is still
// wanted.
constexpr absl::Duration kAskAfter = absl::Milliseconds(100);

// Waits in the budget's queue like a batch, so it gets memory even on a busy
// server.
absl::StatusOr<ByteBudget::Reservation> AwaitMemory(
    ByteBudget& budget, uint64_t bytes, absl::Duration timeout,
    absl::FunctionRef<absl::Status()> stop) {
  struct Place {
    Mutex mu;
    CondVar changed;
    bool granted MR_GUARDED_BY(mu) = false;
    ByteBudget::Reservation reservation MR_GUARDED_BY(mu);
  };
  const auto place = std::make_shared<Place>();
  const ByteBudget::Ticket ticket =
      budget.ReserveAsync(bytes, [place](ByteBudget::Reservation reservation) {
        MutexLock lock(place->mu);
        place->reservation = std::move(reservation);
        place->granted = true;
        place->changed.NotifyAll();
      });
  const SteadyTime deadline = timeout > absl::ZeroDuration()
                                  ? SteadyDeadline(timeout)
                                  : SteadyTime::max();
  absl::Status stopped;
  while (stopped.ok() && SteadyTime::clock::now() < deadline) {
    {
      const SteadyTime ask = std::min(deadline, SteadyDeadline(kAskAfter));
      MutexLock lock(place->mu);
      while (!place->granted && place->changed.WaitUntil(lock, ask)) {
      }
      if (place->granted) return std::move(place->reservation);
    }
    stopped = stop();
  }
  if (!budget.CancelWait(ticket)) {  // the grant is on its way
    MutexLock lock(place->mu);
    while (!place->granted) place->changed.Wait(lock);
    return std::move(place->reservation);
  }
  if (!stopped.ok()) return stopped;
  return WithRetryHint(
      absl::ResourceExhaustedError(absl::StrCat(
          "no memory for the rows to explain: ", FormatByteSize(bytes),
          " of the server's memory budget of ",
          FormatByteSize(budget.capacity()), " were not free within ",
          absl::FormatDuration(timeout), ": retry")),
      "pipeline");
}

uint64_t OffsetOf(const BatchHeader& header, absl::string_view name) {
  for (const TensorHeader& tensor : header.tensors()) {
    if (tensor.name() == name) return tensor.offset();
  }
  MR_CHECK(false) << "a batch without " << name;
  return 0;
}

}  // namespace

absl::Status BuiltPipeline::ExplainRows(
    const StepRange& range, uint64_t first_row, uint64_t row_count,
    ExplainBatchResponse* response,
    absl::FunctionRef<absl::Status()> stop) const {
  if (ready_ != nullptr) {
    return absl::InvalidArgumentError(
        "ready batches contain no samples and cannot be explained: set "
        "ready_batches to 0");
  }
  MR_ASSIGN_OR_RETURN(
      const plan::StepRows all,
      plan_.steps().Rows(range.first_step, range.rank, range.world_size));
  response->set_rows(all.rows);
  if (all.rows == 0) return absl::OkStatus();
  if (first_row >= all.rows) {
    return absl::OutOfRangeError(absl::StrCat(
        "the request is for row ", first_row, "; the rank's batch has ",
        CountText(all.rows, "row"), ", numbered from 0"));
  }
  const uint64_t row_bytes =
      std::max<uint64_t>(1, layout_.PayloadBytes(kMaxRows) / kMaxRows);
  plan::StepRows part = all;
  part.first += first_row;
  part.rows =
      std::min({std::max<uint64_t>(1, row_count), all.rows - first_row,
                kMaxRows, std::max<uint64_t>(1, kMaxPayloadBytes / row_bytes)});
  const uint64_t beside =
      kBatchOverheadBytes + staging_.bytes + operator_bytes_;
  const auto fits = [&](const BatchMemoryLimit& limit) {
    return limit_.budget == nullptr ||
           layout_.PayloadBytes(part.rows) + beside <= limit.bytes;
  };
  while (part.rows > 1 && !fits(limit_)) part.rows /= 2;
  if (!fits(limit_)) {
    // Not checked before: the caller may have opened the pipeline on another
    // server.
    return absl::FailedPreconditionError(absl::StrCat(
        "a row does not fit into the server's memory: ",
        FormatExactByteSize(row_bytes), ", plus up to ", FormatByteSize(beside),
        " to build it, but ", limit_.arithmetic,
        ": request from another server, or ", Advice(fits)));
  }

  const batch::BatchLayout::Placed placed = layout_.ForRows(part.rows);
  ByteBudget::Reservation reservation;
  if (limit_.budget != nullptr) {
    const uint64_t bytes = placed.payload_bytes() + beside;
    // With scratch memory, this may exceed the memory limit of batches.
    MR_ASSIGN_OR_RETURN(
        reservation, AwaitMemory(*limit_.budget,
                                 std::min(bytes + limit_.scratch, limit_.bytes),
                                 limit_.timeout, stop));
  }
  AlignedBuffer buffer;
  uint8_t* const payload = buffer.Reserve(placed.payload_bytes());
  if (payload == nullptr) {
    return absl::ResourceExhaustedError("no memory for the rows to explain");
  }
  BatchHeader header;
  placed.Describe(header);
  const uint8_t* const index_at = payload + OffsetOf(header, "sample_index");
  const uint8_t* const valid_at = payload + OffsetOf(header, "valid");
  const BatchSlice slice =
      SliceOf(*this, range.epoch, range.first_step, part, placed, payload);
  const PipelineSpec& spec = plan_.spec();
  if (slice.mix.kind != augment::BatchMix::NONE) {
    Drawn* const drawn = response->add_drawn();
    drawn->set_place(mixers_.place(slice.mix.mixer));
    drawn->set_transform(TransformAt(spec, drawn->place()));
    drawn->set_what(millrace::augment::Describe(slice.mix));
  }

  const plan::Plan::Epoch order = plan_.ForEpoch(range.epoch);
  UnitLog log(spec);
  WorkerState worker;
  worker.set_log(&log);
  decode::LargeImageGate* const gate = limit_.large_images.get();
  worker.set_large_images(gate);
  LargeImages& large = worker.large_images();
  BadSampleList bad_list;
  RowFiller filler(*this, order, slice, worker, bad_list);
  MR_RETURN_IF_ERROR(filler.Begin());
  for (uint64_t unit = 0; unit < slice.units.count(); ++unit) {
    absl::Status filled;
    do {
      log.Clear();
      MR_RETURN_IF_ERROR(stop());
      filled = filler.Fill(unit);
      // This thread waits at the gate, and holds no admission while it waits.
      // The engine's threads never wait there, so they make room.
      large.admission.Leave();
      if (large.wanted > 0) gate->Enter(large.wanted, &large.admission);
    } while (std::exchange(large.wanted, 0) > 0);
    MR_RETURN_IF_ERROR(filled);
    // The row's own samples come before a partner of another rank, which is in
    // the log, too. The remaining entries belong to the partner.
    size_t next = 0;
    for (uint64_t row = slice.units.begin(unit); row < slice.units.end(unit);
         ++row) {
      const plan::SampleRef ref = order.At(part.first + row);
      ExplainedRow* const explained = response->add_explained();
      explained->set_row(first_row + row);
      explained->set_position(part.first + row);
      explained->set_sample(-1);
      explained->set_shard_row(-1);
      if (!ref.valid) continue;
      int64_t index;
      std::memcpy(&index, index_at + row * sizeof(index), sizeof(index));
      explained->set_sample(index);
      explained->set_source(ref.source);
      explained->set_left_empty(valid_at[row] == 0);
      FillOrigin(source(ref.source),
                 spec.sources(static_cast<int>(ref.source)).dataset(),
                 explained);
      while (next < log.samples().size()) {
        UnitLog::Sample& sample = log.samples()[next++];
        if (sample.index != index) {
          explained->add_replaced(sample.index);
          continue;
        }
        explained->set_key(sample.key);
        for (Drawn& drawn : sample.drawn) {
          *explained->add_drawn() = std::move(drawn);
        }
        break;
      }
    }
  }
  // Checked before the rows are returned.
  return CheckFiles();
}

absl::StatusOr<std::string> ExplainBatch(const Pipeline& pipeline,
                                         uint64_t epoch, uint64_t step,
                                         augment::ParameterLog& log) {
  const auto* built = dynamic_cast<const BuiltPipeline*>(&pipeline);
  MR_CHECK(built != nullptr) << "the pipeline is not from an engine";
  MR_ASSIGN_OR_RETURN(const plan::StepRows rows,
                      built->plan().steps().Rows(step, 0, 1));
  const batch::BatchLayout::Placed placed = built->layout().ForRows(rows.rows);
  AlignedBuffer buffer;
  uint8_t* const payload = buffer.Reserve(placed.payload_bytes());
  if (payload == nullptr) {
    return absl::ResourceExhaustedError(
        "no memory for the batch: lower batch_size");
  }
  const BatchSlice slice = SliceOf(*built, epoch, step, rows, placed, payload);
  if (slice.mix.kind != augment::BatchMix::NONE) {
    log.Add(built->mixers().place(slice.mix.mixer),
            augment::Describe(slice.mix));
  }
  const plan::Plan::Epoch order = built->plan().ForEpoch(epoch);
  WorkerState worker;
  worker.set_log(&log);
  BadSampleList bad_list;
  {
    RowFiller filler(*built, order, slice, worker, bad_list);
    MR_RETURN_IF_ERROR(filler.Begin());
    for (uint64_t unit = 0; unit < slice.units.count(); ++unit) {
      MR_RETURN_IF_ERROR(filler.Fill(unit));
    }
  }
  placed.ZeroGaps(payload);
  return std::string(reinterpret_cast<const char*>(payload),
                     placed.payload_bytes());
}

}  // namespace millrace::pipeline
