// BuiltPipeline is a resolved spec made ready to run over its sources: its
// plan, the layout of its batches and, for each source and output, how a stored
// field becomes its bytes.
//
// Immutable, thread-safe, shared by all runs. Owns its stages; shares the
// sources.

#ifndef MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_BUILT_PIPELINE_H_
#define MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_BUILT_PIPELINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/byte_budget.h"
#include "server/batch/batch_layout.h"
#include "server/decode/large_image_gate.h"
#include "server/pipeline/built_pipeline/batch_mixers.h"
#include "server/pipeline/built_pipeline/column.h"
#include "server/pipeline/built_pipeline/ready_batches.h"
#include "server/pipeline/engine.h"
#include "server/pipeline/reading/read_pace.h"
#include "server/pipeline/reading/sample_buffers.h"
#include "server/pipeline/stage/image_stage.h"
#include "server/plan/plan.h"

namespace millrace::pipeline {

// What one batch may take of the memory budget, and why.
struct BatchMemoryLimit {
  uint64_t bytes = 0;  // for a batch
  // For all sets of ready batches together.
  uint64_t ready_bytes() const { return bytes / 2; }
  std::string arithmetic;  // "memory budget ... - scratch ... = ..."
  uint64_t whole_budget = 0;
  // The numbers above and below with another budget. Null: not known.
  std::function<BatchMemoryLimit(uint64_t whole_budget)> with_budget;
  // Threads that may work on rows of one batch at the same time, and the
  // threads that may be added if their number adapts. kStagingBytes of each
  // added thread are reserved elsewhere.
  uint32_t threads = 1;
  uint32_t more_threads = 0;

  // Budget for the memory of explained rows, and the max wait for it; null: no
  // budget. `scratch` is that of one thread.
  ByteBudget* budget = nullptr;
  absl::Duration timeout;
  uint64_t scratch = 0;
  // Gate for large images of explained rows; null: that of the process.
  std::shared_ptr<decode::LargeImageGate> large_images;
};

class BuiltPipeline final : public Pipeline {
 public:
  // Beside the payload: header, job and bookkeeping of a batch.
  static constexpr uint64_t kBatchOverheadBytes = kMinBatchBytes;

  // A dataset of the spec. `info` carries the name that it is registered under
  // and must outlive the pipeline.
  struct Dataset {
    const DatasetInfo* info;
    std::shared_ptr<const storage::RecordSource> source;
  };

  // `resolved` comes from ResolveSpec over the same `datasets`, one for each of
  // its sources. `decoder_digest` as in Plan::Create().
  static absl::StatusOr<std::shared_ptr<const BuiltPipeline>> Build(
      const PipelineSpec& resolved, std::vector<Dataset> datasets,
      BatchMemoryLimit limit, const ImageStageFactory& make_stage,
      absl::string_view decoder_digest = "");
  static absl::StatusOr<std::shared_ptr<const BuiltPipeline>> Build(
      const PipelineSpec& resolved, const DatasetInfo& info,
      std::shared_ptr<const storage::RecordSource> source,
      BatchMemoryLimit limit, const ImageStageFactory& make_stage) {
    return Build(resolved, {{&info, std::move(source)}}, std::move(limit),
                 make_stage);
  }

  const OpenResponse& description() const override { return description_; }
  absl::StatusOr<uint64_t> MaxPayloadBytes(uint32_t world_size) const override;
  absl::StatusOr<BatchMemory> batch_memory(uint32_t world_size) const override;
  absl::Status ExplainRows(
      const StepRange& range, uint64_t first_row, uint64_t row_count,
      ExplainBatchResponse* response,
      absl::FunctionRef<absl::Status()> stop = GoOn) const override;

  const plan::Plan& plan() const { return plan_; }
  const batch::BatchLayout& layout() const { return layout_; }
  // The number of spec.sources. Their columns differ in field, stage and sizes
  // of images; everything else is equal, so the columns of the first source
  // describe all.
  int sources() const { return static_cast<int>(sources_.size()); }
  const std::vector<Column>& columns(uint32_t source = 0) const {
    return sources_[source].columns;
  }
  // The columns in the order in which they are computed: the columns that
  // belong to an image directly after it.
  const std::vector<int>& order(uint32_t source = 0) const {
    return sources_[source].order;
  }
  const DatasetInfo& info(uint32_t source = 0) const {
    return *sources_[source].dataset.info;
  }
  const storage::RecordSource& source(uint32_t source = 0) const {
    return *sources_[source].dataset.source;
  }
  // As RecordSource::CheckFiles() of every source; errors name the dataset.
  absl::Status CheckFiles() const;
  // The same after a batch was filled and before it is handed out, of the files
  // that its rows were read of. `partners`: rows may have been mixed with
  // samples that are not in the batch.
  absl::Status CheckFilesOf(const batch::BatchLayout::Placed& placed,
                            const uint8_t* payload, bool partners) const;
  const std::shared_ptr<const storage::RecordSource>& shared_source(
      uint32_t source = 0) const {
    return sources_[source].dataset.source;
  }
  // A flag for each field of the source's schema: true if a column uses the
  // field. Readers skip the other fields.
  const std::vector<bool>& used_fields(uint32_t source) const {
    return sources_[source].used_fields;
  }
  // Decides whether samples are read ahead, by measurements. Does not affect
  // the content of batches.
  ReadPace& pace() const { return pace_; }
  // Its part of the memory for samples that are read ahead.
  ReadAccount& read_account() const { return read_account_; }
  const BatchMixers& mixers() const { return mixers_; }
  // Null: batches are filled row by row.
  ReadyBatches* ready() const { return ready_.get(); }
  bool has_stages() const { return has_stages_; }
  // The smallest number of rows that is worth a task: a batch of small tensors
  // is one task, a large image is a task by itself.
  uint64_t rows_per_task() const { return rows_per_task_; }

  // Memory that a worker needs for samples that are not computed in their final
  // place: a slot for the sample, a second slot for its partner if samples are
  // mixed, and room for the conversion to the wire format. 0: none.
  struct Staging {
    uint64_t slot_bytes = 0;
    uint64_t format_bytes = 0;  // source of the last step, or a result
    uint64_t bytes = 0;         // of everything
  };
  const Staging& staging() const { return staging_; }

  // Bytes of the budget for a batch of `rows` rows.
  uint64_t ReservedBytes(uint64_t rows) const {
    return ReservedBytes(rows, limit_);
  }

 private:
  uint64_t ReservedBytes(uint64_t rows, const BatchMemoryLimit& limit) const {
    const uint64_t each = staging_.bytes + operator_bytes_;
    const uint64_t more = each > kStagingBytes ? each - kStagingBytes : 0;
    return layout_.PayloadBytes(rows) + kBatchOverheadBytes +
           each * limit.threads + more * limit.more_threads;
  }
  // "give the server --memory_budget=80MiB", with which `fits` is true.
  std::string Advice(
      absl::FunctionRef<bool(const BatchMemoryLimit&)> fits) const;

  // What is made of the samples of one source.
  struct BuiltSource {
    Dataset dataset;
    std::vector<Column> columns;
    std::vector<int> order;
    std::vector<bool> used_fields;
  };

  BuiltPipeline(plan::Plan plan, batch::BatchLayout layout, BatchMixers mixers,
                std::vector<BuiltSource> sources, BatchMemoryLimit limit);
  // Adds a source's columns, their tensors, and the cost of a row.
  static absl::Status MakeColumns(const PipelineSpec& resolved,
                                  const BatchMixers& mixers,
                                  const ImageStageFactory& make_stage,
                                  BuiltSource& source,
                                  std::vector<TensorSpec>& tensors,
                                  uint64_t& row_nanos);
  static void OrderColumns(BuiltSource& source);
  static storage::ReadWait WaitOf(const std::vector<BuiltSource>& sources);
  // `status` of the files of a source, with the dataset's name.
  absl::Status OfFiles(uint32_t source, absl::Status status) const;
  void Describe(const std::vector<TensorSpec>& tensors);
  void PlaceStaging();

  const plan::Plan plan_;
  const batch::BatchLayout layout_;
  const BatchMemoryLimit limit_;
  std::vector<BuiltSource> sources_;  // as those of the spec
  BatchMixers mixers_;
  Staging staging_;
  uint64_t operator_bytes_ = 0;  // a worker's, between operators on tensors
  std::unique_ptr<ReadyBatches> ready_;
  OpenResponse description_;
  mutable ReadPace pace_;
  mutable ReadAccount read_account_;
  bool has_stages_ = false;
  uint64_t rows_per_task_ = 1;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_BUILT_PIPELINE_BUILT_PIPELINE_H_
