// RowFiller fills rows of one batch: it reads each sample, runs its stages and
// writes the results to their places, and applies the spec's policy to samples
// that are damaged. The result depends on the plan alone, not on who fills
// which row.
//
// Belongs to one thread; made for each task, cheap.
//
//   RowFiller filler(pipeline, epoch, placed, payload, worker);
//   MR_RETURN_IF_ERROR(filler.Begin());
//   for (row : rows) MR_RETURN_IF_ERROR(filler.Fill(row, first + row));

#ifndef MILLRACE_SERVER_PIPELINE_ROW_FILLER_H_
#define MILLRACE_SERVER_PIPELINE_ROW_FILLER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/pipeline/built_pipeline.h"
#include "server/pipeline/worker_state.h"

namespace millrace {

class RowFiller {
 public:
  // Neighbours that SUBSTITUTE tries before it gives up.
  static constexpr uint64_t kMaxSubstitutes = 16;

  // All must outlive the filler.
  RowFiller(const BuiltPipeline& pipeline, const Plan::Epoch& epoch,
            const BatchLayout::Placed& placed, uint8_t* payload,
            WorkerState& worker)
      : pipeline_(pipeline),
        epoch_(epoch),
        placed_(placed),
        payload_(payload),
        worker_(worker) {}

  // Takes the worker's reader.
  absl::Status Begin();

  // DataLoss: a damaged sample under the policy FAIL, or with SUBSTITUTE one
  // without a sound neighbour. ErrorDetail names stage, dataset, shard, row
  // and sample.
  absl::Status Fill(uint64_t row, uint64_t position);

  // Since Begin().
  uint64_t bad_samples() const { return bad_samples_; }
  uint64_t emptied_rows() const { return emptied_rows_; }  // by ZERO

 private:
  absl::Status FillFrom(const SampleRef& ref, uint64_t row);
  absl::Status WriteColumns(const EncodedSample& sample, uint64_t key,
                            uint64_t row);
  // `status` with dataset, shard, row, sample.
  absl::Status Located(absl::Status status, absl::string_view stage,
                       const EncodedSample* sample, int64_t index) const;
  void NoteBadSample(const absl::Status& status);

  const BuiltPipeline& pipeline_;
  const Plan::Epoch& epoch_;
  const BatchLayout::Placed& placed_;
  uint8_t* const payload_;
  WorkerState& worker_;
  RecordReader* reader_ = nullptr;
  uint64_t bad_samples_ = 0;
  uint64_t emptied_rows_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_ROW_FILLER_H_
