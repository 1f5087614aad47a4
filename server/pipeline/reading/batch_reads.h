// BatchReads tracks the reading ahead of one batch: the samples that its rows
// need, the samples that have been read, and the rows whose samples are
// complete. Read threads and worker threads meet here. Read threads wait for
// room in the buffers; worker threads never wait for read threads.
//
// Reading ahead is an optimisation only: a worker reads any missing sample
// itself.
//
// Read(), Done() and At() may be called from any thread, for an index or a unit
// by one at a time. Gives its samples back when it is destroyed.
//
//   reads.Read(begin, end, worker, gates);
//   reads.Done(begin, end, [&](uint64_t from, uint64_t to) { Work(from, to);
//   });

#ifndef MILLRACE_SERVER_PIPELINE_READING_BATCH_READS_H_
#define MILLRACE_SERVER_PIPELINE_READING_BATCH_READS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "server/pipeline/built_pipeline/built_pipeline.h"
#include "server/pipeline/reading/read_gates.h"
#include "server/pipeline/reading/sample_buffers.h"
#include "server/pipeline/row/row_filler.h"
#include "server/pipeline/row/worker_state.h"

namespace millrace::pipeline {

class BatchReads final : public SamplesAhead {
 public:
  // All must outlive it. Units of the slice become ready `units_per_task` at a
  // time.
  BatchReads(const BuiltPipeline& pipeline, const plan::Plan::Epoch& epoch,
             const BatchSlice& slice, uint64_t units_per_task,
             SampleBuffers& buffers);
  ~BatchReads() override;
  BatchReads(const BatchReads&) = delete;
  BatchReads& operator=(const BatchReads&) = delete;

  // Samples, in the order of their rows; at least 1.
  uint64_t count() const { return samples_.size(); }

  // Samples that a thread should take at once.
  uint64_t samples_per_task() const;

  // Without waiting for room in the buffers.
  struct Took {
    std::chrono::nanoseconds all{0};
    std::chrono::nanoseconds at_gates{0};  // of it
  };
  // Reads samples [begin, end); takes as long as storage does.
  Took Read(uint64_t begin, uint64_t end, WorkerState& reader,
            ReadGates& gates);

  // Samples [begin, end) have been read or given up. Calls `ready` for the
  // units that are now complete. These units must be released soon, because
  // other reads may wait for their room.
  void Done(uint64_t begin, uint64_t end,
            absl::FunctionRef<void(uint64_t from, uint64_t to)> ready);

  FetchedSample* At(uint64_t position) const override {
    return position - first_ < samples_.size() ? samples_[position - first_]
                                               : nullptr;
  }

  // Units [from, to) have been worked on, or never will be.
  void Release(uint64_t from, uint64_t to);

 private:
  // Whether the rows need the sample at `position`.
  bool Needs(uint64_t position) const;

  const BuiltPipeline& pipeline_;
  const plan::Plan::Epoch& epoch_;
  const BatchSlice& slice_;
  SampleBuffers& buffers_;
  const uint64_t samples_per_unit_;
  const uint64_t units_per_task_;
  const uint64_t first_;  // position of samples_[0]
  std::vector<FetchedSample*> samples_;
  std::vector<std::atomic<uint64_t>> left_;  // of each task, to be read
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_READING_BATCH_READS_H_
