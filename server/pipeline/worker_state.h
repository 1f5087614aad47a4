// WorkerState is what one worker thread keeps between tasks: a reader of each
// source and the scratch of the pipelines that it has worked for last.
//
// Belongs to one thread.

#ifndef MILLRACE_SERVER_PIPELINE_WORKER_STATE_H_
#define MILLRACE_SERVER_PIPELINE_WORKER_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/pipeline/built_pipeline.h"
#include "server/pipeline/image_stage.h"
#include "server/storage/record_source.h"

namespace millrace {

class WorkerState {
 public:
  // Pipelines whose scratch is kept: a training job and its evaluation.
  static constexpr size_t kKeptScratches = 2;

  // The sources must outlive the worker. Fails as RecordSource::NewReader.
  absl::StatusOr<RecordReader*> ReaderOf(const RecordSource& source) {
    std::unique_ptr<RecordReader>& reader = readers_[&source];
    if (reader == nullptr) {
      auto made = source.NewReader();
      if (!made.ok()) return made.status();
      reader = *std::move(made);
    }
    return reader.get();
  }

  // One for each column of the pipeline, null where it has no stage. Valid
  // until the next call.
  const std::vector<std::unique_ptr<ImageStage::Scratch>>& ScratchOf(
      const BuiltPipeline& pipeline) {
    for (size_t i = 0; i < kept_.size(); ++i) {
      if (kept_[i].pipeline_id != pipeline.id()) continue;
      if (i != 0) std::swap(kept_[i], kept_[0]);  // the last used in front
      return kept_[0].scratch;
    }
    // The old one goes before the new one comes.
    if (kept_.size() == kKeptScratches) kept_.pop_back();
    Kept& made = *kept_.emplace(kept_.begin());
    made.pipeline_id = pipeline.id();
    for (const BuiltPipeline::Column& column : pipeline.columns()) {
      made.scratch.push_back(
          column.stage == nullptr ? nullptr : column.stage->NewScratch());
    }
    return made.scratch;
  }

 private:
  struct Kept {
    uint64_t pipeline_id = 0;
    std::vector<std::unique_ptr<ImageStage::Scratch>> scratch;
  };

  std::map<const RecordSource*, std::unique_ptr<RecordReader>> readers_;
  std::vector<Kept> kept_;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_WORKER_STATE_H_
