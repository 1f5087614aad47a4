// Engine runs pipelines: it owns the worker threads and the cache of built
// pipelines, reserves memory and fills batches. It knows nothing of gRPC and
// holds no state of any job: a batch is a function of (resolved spec, content,
// epoch, step, rank, world size).
//
// Thread-safe. Callbacks run on worker threads, some of them before Start() has
// returned, and must not block. Runs take turns, so none starves; within a run
// workers gather on the earliest step.
//
//   MR_ASSIGN_OR_RETURN(auto pipeline, engine.Open(spec));
//   auto run = engine.Start(pipeline, range, {on_batch, on_done});

#ifndef MILLRACE_SERVER_PIPELINE_ENGINE_H_
#define MILLRACE_SERVER_PIPELINE_ENGINE_H_

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

namespace millrace {

class Operators;

// Datasets by the name they are registered under. Immutable while the engine
// lives.
using DatasetCatalog =
    std::map<std::string, std::shared_ptr<const RecordSource>>;

struct StepRange;

// A built pipeline: plan, stages and layout of one resolved spec over the
// datasets of this server. Immutable, thread-safe, shared by all calls.
class Pipeline {
 public:
  virtual ~Pipeline() = default;

  // Everything Open answers except protocol_version and max_payload_bytes.
  virtual const OpenResponse& description() const = 0;

  // Largest payload of one rank's batch. InvalidArgument when `world_size`
  // does not divide the batch (names the nearest that do). FailedPrecondition
  // when the batch is larger than this engine's memory budget (says the
  // arithmetic): another one may have room for it.
  virtual absl::StatusOr<uint64_t> MaxPayloadBytes(
      uint32_t world_size) const = 0;

  // What one rank's batch takes of the memory budget, whether or not there is
  // so much. InvalidArgument as above.
  virtual absl::StatusOr<BatchMemory> batch_memory(
      uint32_t /*world_size*/) const {
    return absl::UnimplementedError("this pipeline does not count memory");
  }

  // Makes rows of the rank's batch of one step again, from `first_row` on, and
  // says what they hold and what was drawn for them: at most `row_count`, fewer
  // where there are many or large ones, at least one. Works on the calling
  // thread, in memory of its own (at most 16 MiB, or one row, and a thread's
  // scratch), which it takes of the budget. Before each sample, and while it
  // waits for memory, it asks `stop`, and ends with what that says unless it is
  // OK. OutOfRange: no such step or row. FailedPrecondition: a row larger than
  // the budget. DataLoss: a bad sample under the policy FAIL.
  // ResourceExhausted: no memory within admission_timeout; ErrorDetail says
  // when to ask again.
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
  // Where batches are filled as far as it has room; null: in the engine's own
  // memory. Must not outlive the budget.
  std::shared_ptr<PayloadMemory> memory;
};

class Engine {
 public:
  static constexpr uint32_t kDefaultReadThreads = 32;
  static constexpr uint32_t kMaxReadThreads = 1024;
  // Of numbers that adapt: the most that there may be, where the budget has
  // room and not more are there at first. Of worker threads also so many for
  // each CPU.
  static constexpr uint32_t kMostThreads = 64;
  static constexpr uint32_t kMostThreadsOfCpu = 4;
  static constexpr uint32_t kMostReadThreads = 512;

  struct Options {
    // Worker threads. 0: the CPUs of the cgroup.
    uint32_t threads = 0;
    // Threads that wait for storage beside the worker threads, where storage
    // makes somebody wait: so many samples can be read at the same time. 0:
    // none; the worker threads read.
    uint32_t read_threads = kDefaultReadThreads;
    // The numbers above are those at first, and change by what is measured
    // (server/pipeline/thread_tuner.h). With 0 read threads there never are
    // any.
    bool adapt_threads = false;
    bool adapt_read_threads = false;
    // Bytes for batches under way and scratch. Not owned; must outlive the
    // engine and the last of its batches.
    ByteBudget* budget = nullptr;
    // Bytes of the budget that others may take while the engine runs (caches
    // of decoded row groups): a batch must fit beside them.
    uint64_t budget_held_elsewhere_bytes = 0;
    // A batch that waits longer for memory ends its run with
    // ResourceExhausted. 0: wait for ever.
    absl::Duration admission_timeout = absl::Seconds(5);
    // Built pipelines that are kept, least recently used first out.
    uint32_t max_cached_pipelines = 64;
    // Libraries whose transforms and decoders specs may name; null: none. Not
    // owned; must outlive the engine and its pipelines.
    const Operators* operators = nullptr;
    // Answer specs with a synthetic source with FailedPrecondition.
    bool refuse_synthetic = false;

    absl::Status Validate() const;
  };

  struct Callbacks {
    // A finished batch; steps may finish in any order.
    std::function<void(FilledBatch)> on_batch;
    // Called exactly once, after the last on_batch: OK when all steps were
    // delivered, Cancelled after Run's Cancel(), else the first error: DataLoss
    // (a bad sample; ErrorDetail names it), ResourceExhausted (no memory within
    // admission_timeout; the steps before it were delivered, ErrorDetail says
    // when to ask again), or what storage says.
    std::function<void(absl::Status)> on_done;
  };

  // A range of steps under way. Destroying it cancels what has not been
  // started; callbacks may still run until on_done has been called.
  class Run {
   public:
    virtual ~Run() = default;
    // Idempotent; does not wait. Memory of batches under way comes back when
    // their workers reach the next sample.
    virtual void Cancel() = 0;
  };

  struct Stats {
    uint32_t threads = 0;       // now
    uint32_t read_threads = 0;  // that may wait now
    // That there may be: the same where the number is fixed.
    uint32_t most_threads = 0;
    uint32_t most_read_threads = 0;
    // Newest first; bounded.
    std::vector<ThreadChange> thread_changes;
    uint64_t bad_samples = 0;
    // Those met last, newest first, each once; bounded.
    std::vector<BadSample> recent_bad_samples;
    uint64_t refused_admissions = 0;
    uint64_t cached_pipelines = 0;
    std::vector<StageTime> stages;
    // Thread-seconds that the workers had nothing to do.
    double idle_thread_seconds = 0;
  };

  static absl::StatusOr<std::unique_ptr<Engine>> Create(const Options& options,
                                                        DatasetCatalog catalog);

  // What an engine of these options needs of its budget, of any size. Errors as
  // Create(), but for a budget that is too small.
  static absl::StatusOr<MemoryNeeds> Needs(const Options& options,
                                           const DatasetCatalog& catalog);

  // Waits for the workers; every run must be done or cancelled.
  virtual ~Engine() = default;

  virtual const DatasetCatalog& catalog() const = 0;

  // Resolves and checks `spec` and builds its pipeline, or finds it built.
  // InvalidArgument, NotFound (dataset, preset, field), Unimplemented. That a
  // batch fits into the budget depends on the world size: see
  // Pipeline::MaxPayloadBytes. ErrorDetail says stage and dataset.
  virtual absl::StatusOr<std::shared_ptr<const Pipeline>> Open(
      const PipelineSpec& spec) = 0;

  // Starts the steps in order. OutOfRange: a step past the end of the epoch.
  // InvalidArgument: rank, world size or an empty range. FailedPrecondition: a
  // batch larger than the budget.
  virtual absl::StatusOr<std::unique_ptr<Run>> Start(
      std::shared_ptr<const Pipeline> pipeline, const StepRange& range,
      Callbacks callbacks) = 0;

  virtual Stats stats() const = 0;

  // Those of the options.
  virtual const Operators* operators() const { return nullptr; }

  // Bytes of the budget that batches can have: what the engine holds for
  // itself and what is held elsewhere is not among them. Constant, above 0.
  virtual uint64_t batch_budget_bytes() const = 0;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_ENGINE_H_
