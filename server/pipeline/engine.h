// Engine runs pipelines: it owns the worker threads and the cache of built
// pipelines, reserves memory and fills batches. It knows nothing of gRPC and
// holds no state of any job: a batch is a function of (resolved spec, content,
// epoch, step, rank, world size).
//
// Thread-safe. Callbacks run on worker threads, some of them before Start() has
// returned, and must not block. Plans and their clients share the threads' time
// (server/pipeline/threads/fair_queue.h), so none starves. Within a run,
// workers work on the earliest step first.
//
//   MR_ASSIGN_OR_RETURN(auto pipeline, engine.Open(spec));
//   auto run = engine.Start(pipeline, range, {on_batch, on_done});

#ifndef MILLRACE_SERVER_PIPELINE_ENGINE_H_
#define MILLRACE_SERVER_PIPELINE_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/byte_budget.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"
#include "server/batch/filled_batch.h"
#include "server/pipeline/memory_use.h"
#include "server/storage/record_source.h"

namespace millrace::operators {
class Operators;
}  // namespace millrace::operators

namespace millrace::pipeline {

struct Sharer;

// Datasets by the name they are registered under.
using DatasetCatalog =
    std::map<std::string, std::shared_ptr<const storage::RecordSource>>;

struct StepRange;

// A built pipeline: plan, stages and layout of one resolved spec over the
// datasets of this server. Immutable, thread-safe, shared by all calls.
class Pipeline {
 public:
  virtual ~Pipeline() = default;

  // Everything Open answers except protocol_version and max_payload_bytes.
  virtual const OpenResponse& description() const = 0;

  // Largest payload of one rank's batch. InvalidArgument: `world_size` does not
  // divide the batch (the message names the nearest that do).
  // FailedPrecondition: the batch is larger than this engine's memory budget
  // (the message shows the arithmetic); another server may have more memory.
  virtual absl::StatusOr<uint64_t> MaxPayloadBytes(
      uint32_t world_size) const = 0;

  // Bytes of the memory budget that one rank's batch needs, also if the budget
  // is smaller. InvalidArgument as above.
  virtual absl::StatusOr<BatchMemory> batch_memory(
      uint32_t /*world_size*/) const {
    return absl::UnimplementedError("this pipeline does not count memory");
  }

  // Builds rows of the rank's batch of one step again, from `first_row` on, and
  // describes their content and random choices: at most `row_count` rows, fewer
  // if there are many or large rows, at least one. Works on the calling thread.
  // Its memory (at most 16 MiB, or one row, and a thread's scratch) is part of
  // the budget. Calls `stop` before each sample and while it waits for memory,
  // and returns an error of `stop`. OutOfRange: no such step or row.
  // FailedPrecondition: a row larger than the budget. DataLoss: a bad sample
  // under the policy FAIL. ResourceExhausted: no memory within
  // admission_timeout; ErrorDetail contains the retry delay.
  virtual absl::Status ExplainRows(
      const StepRange& /*range*/, uint64_t /*first_row*/,
      uint64_t /*row_count*/, ExplainBatchResponse* /*response*/,
      absl::FunctionRef<absl::Status()> /*stop*/ = GoOn) const {
    return absl::UnimplementedError("this pipeline does not explain batches");
  }

 protected:
  static absl::Status GoOn() { return absl::OkStatus(); }
};

struct StepRange {
  uint64_t epoch = 0;
  uint64_t first_step = 0;
  uint64_t step_count = 0;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  bool with_payload_digest = false;
  // Memory for the batches, used as long as it has room; null: the engine's own
  // memory. Must not outlive the budget.
  std::shared_ptr<batch::PayloadMemory> memory;
  // Time that the first step waited for its client's share of the memory before
  // it was requested; counts as waiting for memory.
  std::chrono::nanoseconds waited{0};
  // The owner of the work (Engine::SharerOf), the same for all runs of a call.
  // Null: no owner; shares the time of all such work of the plan.
  std::shared_ptr<const Sharer> sharer;
};

// The identity of a caller. `client` and `peer` may be empty: all callers
// without an identity count as one.
struct Caller {
  std::string client;      // an id, or the connection's address
  std::string peer;        // address without the port
  std::string connection;  // address with the port, whatever the id
};

class Engine {
 public:
  static constexpr uint32_t kDefaultReadThreads = 32;
  static constexpr uint32_t kMaxReadThreads = 1024;
  // Upper bounds of adaptive thread counts. The budget may lower them; a larger
  // initial count raises them.
  static constexpr uint32_t kMaxAdaptiveThreads = 64;
  // Per CPU; the larger of this and kMaxAdaptiveThreads counts.
  static constexpr uint32_t kMaxAdaptiveThreadsOfCpu = 4;
  static constexpr uint32_t kMaxAdaptiveReadThreads = 512;

  struct Options {
    // Worker threads. 0: the CPUs of the cgroup.
    uint32_t threads = 0;
    // Read threads: threads beside the worker threads that wait for storage
    // when reads block. Their number is the number of samples that can be read
    // at the same time. 0: none; the worker threads read.
    uint32_t read_threads = kDefaultReadThreads;
    // The numbers above are initial numbers, which adapt to measurements
    // (server/pipeline/threads/thread_tuner.h). 0 read threads stay 0.
    bool adapt_threads = false;
    bool adapt_read_threads = false;
    // Bytes for batches in flight and scratch. Not owned; must outlive the
    // engine and the last of its batches.
    ByteBudget* budget = nullptr;
    // Bytes of the budget that other users (caches of decoded row groups) may
    // take while the engine runs: a batch must fit beside them.
    uint64_t budget_held_elsewhere_bytes = 0;
    // The same bytes for another budget, so that a refusal can name a
    // sufficient budget. Null: refusals name none. Thread-safe.
    std::function<uint64_t(uint64_t budget)> held_elsewhere_of;
    // A batch that waits longer for memory ends its run with
    // ResourceExhausted. 0: wait for ever.
    absl::Duration admission_timeout = absl::Seconds(5);
    // Built pipelines that are kept, least recently used first out.
    uint32_t max_cached_pipelines = 64;
    // Weights of jobs by the name of their first dataset; 1 where there is
    // none. Above 0.
    std::map<std::string, double> dataset_weights;
    // Libraries whose transforms and decoders specs may name; null: none. Not
    // owned; must outlive the engine and its pipelines.
    const operators::Operators* operators = nullptr;
    // Digest of the built-in images as the image decoders decode them
    // (server/decode/decoder_digest.h): part of every plan that decodes images.
    // Empty: Create() computes it.
    std::string decoder_digest;
    // Answer specs with a synthetic source with FailedPrecondition.
    bool refuse_synthetic = false;
    // AddDataset() is used. The memory for threads is then that of datasets
    // with images which are read from files, whatever the catalogue has, and
    // `added_metadata_bytes` are set aside for footers of files that are added.
    bool datasets_change = false;
    uint64_t added_metadata_bytes = 0;

    absl::Status Validate() const;
  };

  struct Callbacks {
    // A finished batch; steps may finish in any order.
    std::function<void(batch::FilledBatch)> on_batch;
    // Called exactly once, after the last on_batch: OK when all steps were
    // delivered, Cancelled after Run's Cancel(), else the first error: DataLoss
    // (a bad sample; ErrorDetail names it), Unavailable (a file changed while
    // it was read; another server may have it whole), ResourceExhausted (no
    // memory within admission_timeout; the steps before it were delivered,
    // ErrorDetail says when to ask again), or what storage says.
    std::function<void(absl::Status)> on_done;
  };

  // A range of steps in progress. Destroying it cancels the steps that have not
  // started; callbacks may still run until on_done has been called.
  class Run {
   public:
    virtual ~Run() = default;
    // Idempotent; does not wait. The memory of unfinished batches is released
    // when their workers reach the next sample.
    virtual void Cancel() = 0;
  };

  struct Stats {
    uint32_t threads = 0;       // now
    uint32_t read_threads = 0;  // that may wait now
    // That there may be: the same where the number is fixed.
    uint32_t max_threads = 0;
    uint32_t max_read_threads = 0;
    // Newest first; bounded.
    std::vector<ThreadChange> thread_changes;
    uint64_t bad_samples = 0;
    // Those met last, newest first, each once; bounded.
    std::vector<BadSample> recent_bad_samples;
    uint64_t refused_admissions = 0;
    uint64_t cached_pipelines = 0;
    // Bytes of all pipelines, including pipelines that are in use and no longer
    // cached.
    uint64_t pipeline_bytes = 0;
    // A few clients with the most worker time in the last seconds, largest
    // first.
    std::vector<ClientShare> clients;
    std::vector<StageTime> stages;
    // Bytes of the budget that the engine and its datasets have reserved
    // (scratch, samples read ahead, recycled batches, caches of row groups) and
    // that contain nothing now.
    uint64_t unused_bytes = 0;
    // Thread-seconds that the workers had nothing to do.
    double idle_thread_seconds = 0;
  };

  static absl::StatusOr<std::unique_ptr<Engine>> Create(const Options& options,
                                                        DatasetCatalog catalog);

  // The memory needs of an engine with these options, for any budget. Errors as
  // Create(), except for a budget that is too small.
  static absl::StatusOr<MemoryNeeds> Needs(const Options& options,
                                           const DatasetCatalog& catalog);

  // Waits for the workers; every run must be done or cancelled.
  virtual ~Engine() = default;

  // The datasets of this moment.
  virtual DatasetCatalog catalog() const = 0;

  // Serves a dataset from now on, under this name, or in the place of the
  // dataset that has the name. Pipelines of the old dataset are not used again;
  // runs in progress finish on it. Its files are closed when the last of them
  // ends. InvalidArgument: no name. FailedPrecondition: without
  // Options::datasets_change; or the samples need more memory than was set
  // aside.
  virtual absl::Status AddDataset(
      const std::string& name,
      std::shared_ptr<const storage::RecordSource> source) {
    static_cast<void>(name);
    static_cast<void>(source);
    return absl::FailedPreconditionError("the datasets of this engine are set");
  }
  // The reverse, for datasets that were added. No effect on others.
  virtual void RemoveDataset(const std::string& name) {
    static_cast<void>(name);
  }

  // Resolves and checks `spec` and builds its pipeline, or finds it built.
  // InvalidArgument, NotFound (dataset, preset, field), Unimplemented,
  // Unavailable (RecordSource::CheckFiles() of a dataset). Whether a batch fits
  // into the budget depends on the world size: see Pipeline::MaxPayloadBytes.
  // FailedPrecondition: the pipeline needs more memory than the engine has for
  // pipelines; ResourceExhausted: the pipelines in use leave too little.
  // ErrorDetail contains stage and dataset. Builds on the calling thread.
  virtual absl::StatusOr<std::shared_ptr<const Pipeline>> Open(
      const PipelineSpec& spec) = 0;

  using Opened = std::function<void(
      absl::StatusOr<std::shared_ptr<const Pipeline>> pipeline)>;
  // As Open(). A new pipeline is built on a worker thread, in the turn of the
  // caller's connection; a built one is passed to `opened` before the return.
  // `wanted` (may be null) is called before the build; if it is false, the
  // answer is Cancelled. ResourceExhausted: too many pipelines wait to be
  // built, or the pipelines in use leave no memory; ErrorDetail contains the
  // retry delay.
  virtual void OpenAsync(const PipelineSpec& spec, const Caller& caller,
                         std::function<bool()> wanted, Opened opened) {
    static_cast<void>(caller);
    static_cast<void>(wanted);
    opened(Open(spec));
  }

  // The owner of the runs of a call for `range`. Null: the engine does not
  // distinguish callers.
  virtual std::shared_ptr<const Sharer> SharerOf(const Pipeline& pipeline,
                                                 const Caller& caller,
                                                 const StepRange& range) const {
    static_cast<void>(pipeline);
    static_cast<void>(caller);
    static_cast<void>(range);
    return nullptr;
  }

  // Starts the steps in order. OutOfRange: a step past the end of the epoch.
  // InvalidArgument: rank, world size or an empty range. FailedPrecondition: a
  // batch larger than the budget.
  virtual absl::StatusOr<std::unique_ptr<Run>> Start(
      std::shared_ptr<const Pipeline> pipeline, const StepRange& range,
      Callbacks callbacks) = 0;

  virtual Stats stats() const = 0;

  // Frees the memory that is kept for the next batches. For times without work.
  virtual void ReleaseIdleMemory() {}

  // Those of the options.
  virtual const operators::Operators* operators() const { return nullptr; }

  // That of the plans which decode images.
  virtual std::string decoder_digest() const { return ""; }

  // Bytes of the budget that are for batches: without the bytes that the engine
  // itself and other users hold. Constant, above 0.
  virtual uint64_t batch_budget_bytes() const = 0;

  // A memory budget above the present one, in whole MiB, that leaves at least
  // `bytes` for batches. 0: not known, or none does.
  virtual uint64_t BudgetForBatches(uint64_t bytes) const {
    static_cast<void>(bytes);
    return 0;
  }
};

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_ENGINE_H_
