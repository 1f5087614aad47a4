// SpecRunner runs one pipeline spec through the engine, without network, and
// says how many samples a second come out: the pipeline alone. What is measured
// is what a server does for a batch up to its payload being ready: order,
// reading, decoding, augmenting, writing into the batch.
//
// Not thread-safe; owns the engine and its threads.
//
//   MR_ASSIGN_OR_RETURN(auto runner, SpecRunner::Create(source, spec, {}));
//   MR_ASSIGN_OR_RETURN(auto rate, runner->Measure(absl::Seconds(3)));
//   printf("%.0f images/s\n", rate.samples / rate.seconds);

#ifndef MILLRACE_TESTS_BENCH_SPEC_RUNNER_H_
#define MILLRACE_TESTS_BENCH_SPEC_RUNNER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/storage/record_source.h"

namespace millrace {

class SpecRunner {
 public:
  struct Options {
    // Worker threads, at least 1.
    uint32_t threads = 2;
    // Threads that may wait for storage beside them.
    uint32_t read_threads = 32;
    // Bytes of batches and scratch.
    uint64_t memory_bytes = uint64_t{1} << 30;
    // Batches that do not count, at the beginning of each Measure().
    uint64_t warm_batches = 8;
  };

  // From the end of one batch to the end of another.
  struct Rate {
    uint64_t samples = 0;
    double seconds = 0;
    double cpu_seconds = 0;  // of the whole process
    uint64_t payload_bytes = 0;
  };

  // The spec's source is overwritten by `source`; the rest is run as it is. A
  // batch_size of 0 becomes 64. Fails as Engine::Open does.
  static absl::StatusOr<std::unique_ptr<SpecRunner>> Create(
      std::shared_ptr<const storage::RecordSource> source, PipelineSpec spec,
      const Options& options);

  virtual ~SpecRunner() = default;

  // Runs epoch after epoch, the next one queued before the last one ends, for
  // at least `duration` and two batches beyond the warm ones. Continues with
  // the next epoch at the next call.
  virtual absl::StatusOr<Rate> Measure(absl::Duration duration) = 0;

  // Runs exactly `batches` batches, from the beginning of the next epoch on,
  // one epoch after the other: the same work whenever it is called, for
  // counting instructions. No batch is for warming up.
  virtual absl::StatusOr<Rate> Run(uint64_t batches) = 0;

  virtual const PipelineSpec& resolved_spec() const = 0;
};

}  // namespace millrace

#endif  // MILLRACE_TESTS_BENCH_SPEC_RUNNER_H_
