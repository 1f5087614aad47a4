// Engine runs pipelines: it owns the worker threads and the cache of built
// pipelines, reserves memory and fills batches. It knows nothing of gRPC and
// holds no state of any job: a batch is a function of (resolved spec, content,
// epoch, step, rank, world size).
//
// Thread-safe. Callbacks run on worker threads, some of them before Start() has
// returned, and must not block. Plans and their clients share the threads' time
// (server/pipeline/threads/fair_queue.h), so none starves; within a run workers
// gather on the earliest step.
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

namespace millrace {

class Operators;
struct Sharer;

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
  // How long the first step has waited for its client's share of the memory
  // before it was asked for; counts as waiting for memory.
  std::chrono::nanoseconds waited{0};
  // Whose work it is (Engine::SharerOf); one for all runs of a call. Null: of
  // nobody in particular, with all others of the plan.
  std::shared_ptr<const Sharer> sharer;
};

// Who asks. Both may be empty: all who do not say are one.
struct Caller {
  std::string client;      // an id, or the connection's address
  std::string peer;        // address without the port
  std::string connection;  // address with the port, whatever the id
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
    // (server/pipeline/threads/thread_tuner.h). With 0 read threads there never
    // are any.
    bool adapt_threads = false;
    bool adapt_read_threads = false;
    // Bytes for batches under way and scratch. Not owned; must outlive the
    // engine and the last of its batches.
    ByteBudget* budget = nullptr;
    // Bytes of the budget that others may take while the engine runs (caches
    // of decoded row groups): a batch must fit beside them.
    uint64_t budget_held_elsewhere_bytes = 0;
    // What these would be of another budget, so that a refusal for want of
    // memory can name a budget that works. Null: it names none. Thread-safe.
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
    const Operators* operators = nullptr;
    // What the image decoders make of the built-in images
    // (server/decode/decoder_digest.h): part of every plan that decodes images.
    // Empty: Create() decodes them.
    std::string decoder_digest;
    // Answer specs with a synthetic source with FailedPrecondition.
    bool refuse_synthetic = false;

    absl::Status Validate() const;
  };

  struct Callbacks {
    // A finished batch; steps may finish in any order.
    std::function<void(FilledBatch)> on_batch;
    // Called exactly once, after the last on_batch: OK when all steps were
    // delivered, Cancelled after Run's Cancel(), else the first error: DataLoss
    // (a bad sample; ErrorDetail names it), Unavailable (a file changed while
    // it was read; another server may have it whole), ResourceExhausted (no
    // memory within admission_timeout; the steps before it were delivered,
    // ErrorDetail says when to ask again), or what storage says.
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
    // Of all pipelines, those included that are in use and no longer cached.
    uint64_t pipeline_bytes = 0;
    // Those with the most worker time in the last seconds, most first; few.
    std::vector<ClientShare> clients;
    std::vector<StageTime> stages;
    // Of what the engine and its datasets hold of the budget for themselves
    // (scratch, samples read ahead, recycled batches, caches of row groups),
    // the bytes that hold nothing now.
    uint64_t unused_bytes = 0;
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
  // InvalidArgument, NotFound (dataset, preset, field), Unimplemented,
  // Unavailable (RecordSource::CheckFiles() of a dataset). That a
  // batch fits into the budget depends on the world size: see
  // Pipeline::MaxPayloadBytes. FailedPrecondition: the pipeline takes more
  // memory than the engine has for pipelines; ResourceExhausted: those in use
  // leave none. ErrorDetail says stage and dataset. Builds on the calling
  // thread.
  virtual absl::StatusOr<std::shared_ptr<const Pipeline>> Open(
      const PipelineSpec& spec) = 0;

  using Opened = std::function<void(
      absl::StatusOr<std::shared_ptr<const Pipeline>> pipeline)>;
  // As Open(). A pipeline that is not built yet is built on a worker thread, in
  // the turn of the caller's connection; others are given to `opened` before
  // the return. `wanted` is asked before it is built, may be null, and makes
  // the answer Cancelled. ResourceExhausted: too many wait to be built, or
  // pipelines in use leave no memory; ErrorDetail says when to ask again.
  virtual void OpenAsync(const PipelineSpec& spec, const Caller& caller,
                         std::function<bool()> wanted, Opened opened) {
    static_cast<void>(caller);
    static_cast<void>(wanted);
    opened(Open(spec));
  }

  // Whose work the runs of a call are. Null: the engine does not tell callers
  // apart.
  virtual std::shared_ptr<const Sharer> SharerOf(const Pipeline& pipeline,
                                                 const Caller& caller) const {
    static_cast<void>(pipeline);
    static_cast<void>(caller);
    return nullptr;
  }

  // Starts the steps in order. OutOfRange: a step past the end of the epoch.
  // InvalidArgument: rank, world size or an empty range. FailedPrecondition: a
  // batch larger than the budget.
  virtual absl::StatusOr<std::unique_ptr<Run>> Start(
      std::shared_ptr<const Pipeline> pipeline, const StepRange& range,
      Callbacks callbacks) = 0;

  virtual Stats stats() const = 0;

  // Frees what is kept for the next batches. For times without work.
  virtual void ReleaseIdleMemory() {}

  // Those of the options.
  virtual const Operators* operators() const { return nullptr; }

  // That of the plans which decode images.
  virtual std::string decoder_digest() const { return ""; }

  // Bytes of the budget that batches can have: what the engine holds for
  // itself and what is held elsewhere is not among them. Constant, above 0.
  virtual uint64_t batch_budget_bytes() const = 0;

  // A memory budget above the present one, in whole MiB, that leaves at least
  // `bytes` for batches. 0: not known, or none does.
  virtual uint64_t BudgetForBatches(uint64_t bytes) const {
    static_cast<void>(bytes);
    return 0;
  }
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_ENGINE_H_
