// RowFiller fills rows of one batch: it reads each sample, runs its stages,
// mixes partners, writes the results to their places in the payload, and
// applies the spec's policy to damaged samples. The result depends only on the
// plan, not on the thread that fills a row or on the division of the batch
// among ranks.
//
// Belongs to one thread; made for each task, cheap.
//
//   RowFiller filler(pipeline, epoch, slice, worker, bad_list);
//   MR_RETURN_IF_ERROR(filler.Begin());
//   for (unit : units) MR_RETURN_IF_ERROR(filler.Fill(unit));

#ifndef MILLRACE_SERVER_PIPELINE_ROW_ROW_FILLER_H_
#define MILLRACE_SERVER_PIPELINE_ROW_ROW_FILLER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/pipeline/built_pipeline/built_pipeline.h"
#include "server/pipeline/reading/sample_buffers.h"
#include "server/pipeline/row/bad_sample_list.h"
#include "server/pipeline/row/worker_state.h"

namespace millrace::pipeline {

// A rank's part of a step, in progress.
struct BatchSlice {
  uint64_t step_first = 0;   // position of the global batch's first sample
  uint64_t global_rows = 0;  // of the global batch
  uint64_t first = 0;        // position of row 0
  RowUnits units;
  augment::BatchMix mix;
  const batch::BatchLayout::Placed* placed = nullptr;
  uint8_t* payload = nullptr;
};

// The slice of rows `rows` of a step over `payload`, which is laid out as
// `placed` says.
BatchSlice SliceOf(const BuiltPipeline& pipeline, uint64_t epoch, uint64_t step,
                   const plan::StepRows& rows,
                   const batch::BatchLayout::Placed& placed, uint8_t* payload);

// Samples of a batch that were read before their rows are filled.
class SamplesAhead {
 public:
  virtual ~SamplesAhead() = default;
  // The one at `position` of the epoch; null: it was not read.
  virtual FetchedSample* At(uint64_t position) const = 0;
};

class RowFiller {
 public:
  // What a worker's staging keeps from task to task.
  static constexpr uint64_t kKeptStagingBytes = 1 << 20;

  // All must outlive the filler. `ahead`: the samples that were read ahead;
  // null: none.
  RowFiller(const BuiltPipeline& pipeline, const plan::Plan::Epoch& epoch,
            const BatchSlice& slice, WorkerState& worker,
            BadSampleList& bad_list, const SamplesAhead* ahead = nullptr)
      : pipeline_(pipeline),
        epoch_(epoch),
        slice_(slice),
        worker_(worker),
        bad_list_(bad_list),
        ahead_(ahead) {}
  ~RowFiller() { worker_.staging().ReleaseAbove(kKeptStagingBytes); }

  // Takes the worker's reader of the first source. ResourceExhausted: no
  // memory.
  absl::Status Begin();

  // The rows of a unit. DataLoss: a damaged sample under the policy FAIL, or
  // with SUBSTITUTE one without a sound neighbour. ErrorDetail names stage,
  // dataset, shard, row and sample. Unavailable: other images use the memory
  // that an image needs (WorkerState::large_images); the unit must be filled
  // again.
  absl::Status Fill(uint64_t unit);

  // Since Begin().
  uint64_t bad_samples() const { return bad_samples_; }
  uint64_t emptied_rows() const { return emptied_rows_; }  // by ZERO

 private:
  // The place where a sample is computed: a row of the batch, or only the
  // worker's staging for a partner that belongs to another rank.
  struct Place {
    int slot = 0;  // of the staging
    bool own = true;
    uint64_t row = 0;
  };

  absl::Status FillUnit(uint64_t unit);
  // Reads the sample at `position`. False: there is none, and an own row is
  // finished as an empty one.
  absl::StatusOr<bool> Load(const Place& place, uint64_t position);
  // `fetched` is the sample when it has been read already, else null.
  absl::Status LoadFrom(const plan::SampleRef& ref, const Place& place,
                        FetchedSample* fetched);
  absl::Status WriteColumns(const storage::EncodedSample& sample, uint64_t key,
                            const Place& place);
  absl::Status WriteColumn(int i, absl::Span<const uint8_t> stored,
                           uint64_t key, const Place& place);
  absl::Status ReadClass(const Column& column, absl::Span<const uint8_t> stored,
                         const Place& place);
  void Empty(const Place& place, int64_t sample_index, int32_t source);
  // Makes reader_ and source_ those of a source. Fails as WorkerState does.
  absl::Status UseSource(uint32_t source);

  // Mixes the images of two samples; those that are not own are only read.
  void Mix(const Place& a, const Place& b);
  // Completes an own row when its sample is computed. `partner` is null if the
  // row is not mixed.
  void Finish(const Place& place, const Place* partner);

  // Before the format.
  uint8_t* Raw(int i, const Place& place) const;
  uint8_t* OnWire(int i, const Place& place) const;
  int64_t ClassOf(const Column& column, const Place& place) const;
  uint8_t* slot(int index) const {
    return staging_ + index * pipeline_.staging().slot_bytes;
  }
  uint8_t* format_scratch() const {
    return staging_ + pipeline_.staging().bytes -
           pipeline_.staging().format_bytes;
  }
  // Of a column of source_.
  const Field& FieldOf(const Column& column) const {
    return pipeline_.info(source_).schema().fields(column.field);
  }

  // `status` with the dataset of source_, shard, row, sample.
  absl::Status Located(absl::Status status, absl::string_view stage,
                       const storage::EncodedSample* sample,
                       int64_t index) const;
  // The error of sample `ref`, which ends the batch, with the name of its file
  // if the sample is a file of its own.
  absl::Status NameFile(const absl::Status& status,
                        const plan::SampleRef& ref) const;
  void NoteBadSample(const absl::Status& status, const Place& place);

  const BuiltPipeline& pipeline_;
  const plan::Plan::Epoch& epoch_;
  const BatchSlice& slice_;
  WorkerState& worker_;
  BadSampleList& bad_list_;
  const SamplesAhead* const ahead_;
  storage::RecordReader* reader_ = nullptr;
  uint32_t source_ = 0;  // of the sample at hand
  uint8_t* staging_ = nullptr;
  uint64_t bad_samples_ = 0;
  uint64_t emptied_rows_ = 0;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_ROW_ROW_FILLER_H_
