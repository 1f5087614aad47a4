// WorkerState is what one worker thread keeps between tasks: a reader of each
// source, the scratch of its image stages and room for samples.
//
// Belongs to one thread.

#ifndef MILLRACE_SERVER_PIPELINE_ROW_WORKER_STATE_H_
#define MILLRACE_SERVER_PIPELINE_ROW_WORKER_STATE_H_

#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "common/aligned_buffer.h"
#include "server/augment/parameter_log.h"
#include "server/pipeline/stage/image_stage.h"
#include "server/storage/record_source.h"

namespace millrace::pipeline {

class WorkerState {
 public:
  // The sources of datasets that are there at the start outlive the worker.
  // Others, synthetic ones and those that were added, may be destroyed with the
  // last pipeline, and another source may get the same address; readers of
  // these may outlive their source. Fails as RecordSource::NewReader.
  absl::StatusOr<storage::RecordReader*> ReaderOf(
      const std::shared_ptr<const storage::RecordSource>& source) {
    SourceReader& reader = readers_[source.get()];
    if (reader.source.expired()) {
      auto made = source->NewReader();
      if (!made.ok()) return made.status();
      reader = {source, *std::move(made)};
      std::erase_if(readers_, [](const auto& entry) {
        return entry.second.source.expired();
      });
    }
    return reader.reader.get();
  }

  // Null as long as no stage needed one. Stages share it: a thread works on
  // one image at a time.
  ImageStage::Scratch* scratch() { return scratch_.get(); }

  ImageStage::Scratch& ScratchFor(const ImageStage& stage) {
    if (scratch_ == nullptr) {
      scratch_ = stage.NewScratch();
      scratch_->log = log_;
      if (large_.gate != nullptr) scratch_->large = &large_;
    }
    return *scratch_;
  }

  // Gives back all that it keeps.
  void Clear() {
    readers_.clear();
    scratch_.reset();
    staging_.ReleaseAbove(0);
    page_watch_ = PageWatch();
  }

  // Where what is drawn for samples is written; null on the way of training.
  // Set before the first sample. Not owned.
  void set_log(augment::ParameterLog* log) { log_ = log; }
  augment::ParameterLog* log() const { return log_; }

  // Images that need much memory do not wait for it but are given up for now:
  // see LargeImages. Set before the first sample; not owned.
  void set_large_images(decode::LargeImageGate* gate) { large_.gate = gate; }
  LargeImages& large_images() { return large_; }

  // Samples that do not come about in their place on the wire.
  AlignedBuffer& staging() { return staging_; }

  // What the thread has worked on since it last asked the system for the pages
  // that it waited for: asking costs as much as a small sample.
  struct PageWatch {
    int64_t asked_nanos = 0;
    uint64_t page_reads = 0;
    uint64_t samples = 0;
  };
  PageWatch& page_watch() { return page_watch_; }

 private:
  struct SourceReader {
    std::weak_ptr<const storage::RecordSource> source;
    std::unique_ptr<storage::RecordReader> reader;
  };
  std::map<const storage::RecordSource*, SourceReader> readers_;
  std::unique_ptr<ImageStage::Scratch> scratch_;
  AlignedBuffer staging_;
  PageWatch page_watch_;
  augment::ParameterLog* log_ = nullptr;
  LargeImages large_;
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_ROW_WORKER_STATE_H_
