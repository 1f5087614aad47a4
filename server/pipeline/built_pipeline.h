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
#include "server/pipeline/engine.h"
#include "server/pipeline/image_stage.h"
#include "server/plan/plan.h"

namespace millrace {

// ImageStage::Create, or a fake of it.
using ImageStageFactory =
    std::function<absl::StatusOr<std::unique_ptr<ImageStage>>(
        const Field&, absl::Span<const PlacedTransform>,
        const ImageStageOptions&)>;

// What one batch may take of the memory budget, and why.
struct BatchMemoryLimit {
  uint64_t bytes = 0;      // for a batch
  std::string arithmetic;  // "memory budget ... - scratch ... = ..."
};

class BuiltPipeline final : public Pipeline {
 public:
  // How one output comes about.
  struct Column {
    int field = 0;                      // index into the schema
    uint64_t bytes = 0;                 // of a row
    std::unique_ptr<ImageStage> stage;  // null: the stored bytes
  };

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
  const DatasetInfo& info() const { return info_; }
  const RecordSource& source() const { return *source_; }
  bool has_stages() const { return has_stages_; }
  // Rows that make a task worth its dispatch, and no more: a batch of small
  // tensors is one task, large images are a task each.
  uint64_t rows_per_task() const { return rows_per_task_; }

 private:
  BuiltPipeline(Plan plan, BatchLayout layout, const DatasetInfo& info,
                std::shared_ptr<const RecordSource> source,
                BatchMemoryLimit limit);

  const Plan plan_;
  const BatchLayout layout_;
  const DatasetInfo& info_;
  const std::shared_ptr<const RecordSource> source_;
  const BatchMemoryLimit limit_;
  std::vector<Column> columns_;
  OpenResponse description_;
  bool has_stages_ = false;
  uint64_t rows_per_task_ = 1;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_H_
