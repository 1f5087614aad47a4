// BuiltPipeline is a resolved spec made ready to run over one dataset: its
// plan, the layout of its batches and, for each output, how a stored field
// becomes its bytes.
//
// Immutable, thread-safe, shared by all runs. Owns its stages; shares the
// source.

#ifndef MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_H_
#define MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/batch/batch_layout.h"
#include "server/pipeline/batch_mixers.h"
#include "server/pipeline/column.h"
#include "server/pipeline/engine.h"
#include "server/pipeline/image_stage.h"
#include "server/plan/plan.h"

namespace millrace {

// What one batch may take of the memory budget, and why.
struct BatchMemoryLimit {
  uint64_t bytes = 0;      // for a batch
  std::string arithmetic;  // "memory budget ... - scratch ... = ..."
  // That may work on rows of one batch at the same time.
  uint32_t threads = 1;
};

class BuiltPipeline final : public Pipeline {
 public:
  // Beside the payload: header, job and bookkeeping of a batch.
  static constexpr uint64_t kBatchOverheadBytes = 4096;

  // `resolved` comes from ResolveSpec over `info`, which carries the name that
  // the source is registered under. `info` must outlive the pipeline.
  static absl::StatusOr<std::shared_ptr<const BuiltPipeline>> Build(
      const PipelineSpec& resolved, const DatasetInfo& info,
      std::shared_ptr<const RecordSource> source, BatchMemoryLimit limit,
      const ImageStageFactory& make_stage);

  const OpenResponse& description() const override { return description_; }
  absl::StatusOr<uint64_t> MaxPayloadBytes(uint32_t world_size) const override;

  const Plan& plan() const { return plan_; }
  const BatchLayout& layout() const { return layout_; }
  const std::vector<Column>& columns() const { return columns_; }
  // The columns in the order in which they come about: those that belong to an
  // image right behind it.
  const std::vector<int>& order() const { return order_; }
  const DatasetInfo& info() const { return info_; }
  const RecordSource& source() const { return *source_; }
  const std::shared_ptr<const RecordSource>& shared_source() const {
    return source_;
  }
  const BatchMixers& mixers() const { return mixers_; }
  bool has_stages() const { return has_stages_; }
  // Rows that make a task worth its dispatch, and no more: a batch of small
  // tensors is one task, large images are a task each.
  uint64_t rows_per_task() const { return rows_per_task_; }

  // What a worker needs for samples that do not come about in their place: a
  // slot for the one at hand, another for its partner when samples are mixed,
  // then room for the way onto the wire. 0: none.
  struct Staging {
    uint64_t slot_bytes = 0;
    uint64_t format_bytes = 0;  // source of the last step, or a result
    uint64_t bytes = 0;         // of everything
  };
  const Staging& staging() const { return staging_; }

  // What a batch of so many rows takes of the budget.
  uint64_t ReservedBytes(uint64_t rows) const {
    return layout_.PayloadBytes(rows) + kBatchOverheadBytes +
           (staging_.bytes + operator_bytes_) * limit_.threads;
  }

 private:
  BuiltPipeline(Plan plan, BatchLayout layout, BatchMixers mixers,
                const DatasetInfo& info,
                std::shared_ptr<const RecordSource> source,
                BatchMemoryLimit limit);
  void OrderColumns();
  void PlaceStaging();

  const Plan plan_;
  const BatchLayout layout_;
  const DatasetInfo& info_;
  const std::shared_ptr<const RecordSource> source_;
  const BatchMemoryLimit limit_;
  std::vector<Column> columns_;
  std::vector<int> order_;
  BatchMixers mixers_;
  Staging staging_;
  uint64_t operator_bytes_ = 0;  // a worker's, between operators on tensors
  OpenResponse description_;
  bool has_stages_ = false;
  uint64_t rows_per_task_ = 1;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_H_
