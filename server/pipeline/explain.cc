#include "server/pipeline/explain.h"

#include <cstring>

#include "common/aligned_buffer.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "server/pipeline/bad_sample_list.h"
#include "server/pipeline/built_pipeline.h"
#include "server/pipeline/row_filler.h"
#include "server/pipeline/worker_state.h"

namespace millrace {

absl::StatusOr<std::string> ExplainBatch(const Pipeline& pipeline,
                                         uint64_t epoch, uint64_t step,
                                         ParameterLog& log) {
  const auto* built = dynamic_cast<const BuiltPipeline*>(&pipeline);
  MR_CHECK(built != nullptr) << "a pipeline that no engine has made";
  MR_ASSIGN_OR_RETURN(const StepRows rows,
                      built->plan().steps().Rows(step, 0, 1));
  const BatchLayout::Placed placed = built->layout().ForRows(rows.rows);
  AlignedBuffer buffer;
  uint8_t* const payload = buffer.Reserve(placed.payload_bytes());
  if (payload == nullptr) {
    return absl::ResourceExhaustedError(
        "no memory for the batch: take a smaller batch_size");
  }
  const BatchSlice slice = SliceOf(*built, epoch, step, rows, placed, payload);
  if (slice.mix.kind != BatchMix::NONE) {
    log.Add(built->mixers().place(slice.mix.mixer), Describe(slice.mix));
  }
  const Plan::Epoch order = built->plan().ForEpoch(epoch);
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

}  // namespace millrace
