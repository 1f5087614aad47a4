#include "server/pipeline/engine_core.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "common/cgroup.h"
#include "common/count_text.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "proto/error_detail.h"
#include "proto/retry_hint.h"
#include "server/pipeline/built_pipeline/pipeline_bytes.h"
#include "server/pipeline/built_pipeline/pipeline_cache.h"
#include "server/pipeline/dataset_table.h"
#include "server/pipeline/row/worker_state.h"
#include "server/pipeline/stage/image_memory.h"
#include "server/pipeline/stage/loaded_operator_catalog.h"
#include "server/pipeline/step_run.h"
#include "server/pipeline/thread_tuning.h"
#include "server/pipeline/threads/fair_queue.h"
#include "server/plan/resolve.h"
#include "server/plan/spec_check.h"
#include "server/storage/synthetic/synthetic_source.h"

namespace millrace::pipeline {
namespace {

// Upper bound of Options::threads, far above the CPUs of any machine, so that a
// mistyped number is refused. A choice.
constexpr uint32_t kMaxThreads = 4096;
// Max bytes of a spec, both as requested and as resolved. A client sends the
// resolved spec with every call, and it must fit into a gRPC request. A choice,
// far above any spec written by hand.
constexpr size_t kMaxSpecBytes = 64 << 10;
// Intended nanoseconds of a worker's task: long compared with its dispatch,
// short compared with the time that another client waits for its turn. A
// choice.
constexpr int64_t kTaskNanos = 1'000'000;
// Nanoseconds after which a task counts as long and the helper may take a plan
// that waits (Scheduler::Options::long_task_nanos): a few times the intended
// length, so that ordinary rows start no helper. A choice.
constexpr int64_t kLongTaskNanos = 5'000'000;
// Lower bound of the bytes for pipelines, so that a small budget has room for a
// few ordinary pipelines.
constexpr uint64_t kMinPipelineBytes = 1 << 20;
// Max bytes of specs (as protobuf stores them) that wait to be built. One
// connection gets at most half of what the other connections leave
// (AddOpening()). A choice: hundreds of ordinary specs.
constexpr uint64_t kMaxOpeningBytes = 8 << 20;
// Max clients in Stats, so that the answer of Status stays short.
constexpr size_t kSharesShown = 10;
// Stats leaves out clients whose pipelines take less than this share of the
// workers' time to build.
constexpr double kMinOpeningShare = 0.01;
// Replaces the dataset's name for clients that open pipelines.
constexpr char kOpening[] = "(opening pipelines)";

// ResourceExhausted, which a client retries after a delay.
absl::Status AskAgain(std::string why) {
  return WithRetryHint(absl::ResourceExhaustedError(std::move(why)), "plan");
}

// The scratch memory that one worker needs for a dataset's images with the
// usual training recipe. The actual pipelines are not known when the budget is
// divided.
absl::StatusOr<uint64_t> ScratchBytes(const DatasetInfo& info,
                                      const ImageStageFactory& make_stage) {
  uint64_t max_bytes = 0;
  for (const Field& field : info.schema().fields()) {
    if (field.kind() != FIELD_KIND_ENCODED_IMAGE) continue;
    Transform decode, crop;
    decode.mutable_decode_image()->set_field(field.name());
    RandomResizedCrop& random = *crop.mutable_random_resized_crop();
    random.add_fields(field.name());
    random.set_height(224);
    random.set_width(224);
    random.set_scale_min(0.08);
    random.set_scale_max(1);
    random.set_ratio_min(3.0 / 4);
    random.set_ratio_max(4.0 / 3);
    const PlacedTransform transforms[] = {{&decode, 0}, {&crop, 1}};
    MR_ASSIGN_OR_RETURN(const auto stage, make_stage(field, transforms, {}));
    max_bytes = std::max(max_bytes, stage->max_scratch_bytes());
  }
  return max_bytes;
}

// Stored pixels of fewer bytes are no reason to set memory aside for large
// images. A choice, far below what a thread has.
constexpr double kMinLargePixels = 1 << 20;

// Whether the field is, or stages may process it as, images that may need more
// than the scratch of a thread.
bool MayBeLargeImage(const Field& field) {
  if (field.kind() == FIELD_KIND_ENCODED_IMAGE) return true;
  if (field.dtype() != DTYPE_UINT8 || field.shape_size() != 3) return false;
  double bytes = 1;
  for (const int64_t side : field.shape()) bytes *= static_cast<double>(side);
  return bytes >= kMinLargePixels;
}

bool HasSyntheticSource(const PipelineSpec& spec) {
  for (const Source& source : spec.sources()) {
    if (source.has_synthetic()) return true;
  }
  return false;
}

// Owns the components of the engine and joins their threads. All ordering rules
// are in StepRun and in the components.
//
// Lifetimes: runs and jobs point into the engine (services_) without
// references. This is safe because the engine is destroyed only when every run
// is done or cancelled, and its destructor joins the threads that finish
// cancelled runs. The owner of the engine must ensure that no other thread
// returns memory to the budget by then: the grant that follows may go to a
// cancelled run (rpc_server.cc waits for LivePayloads). Delivered batches may
// outlive the engine: they share the buffer pool, and the budget outlives them.
class EngineImpl final : public Engine {
 public:
  EngineImpl(const Options& options, const DatasetCatalog& catalog,
             ImageStageFactory make_stage, const MemoryUse& use,
             BatchMemoryLimit limit, ByteBudget::Reservation held,
             EngineTuning tuning)
      : datasets_(catalog),
        datasets_change_(options.datasets_change),
        budget_(options.budget),
        make_stage_(std::move(make_stage)),
        limit_(std::move(limit)),
        large_images_(limit_.large_images.get()),
        held_(std::move(held)),
        file_metadata_(use.file_metadata),
        decoder_digest_(options.decoder_digest),
        refuse_synthetic_(options.refuse_synthetic),
        loaded_(options.operators),
        operators_(NewLoadedOperatorCatalog(options.operators)),
        weights_(options.dataset_weights),
        cache_(options.max_cached_pipelines,
               std::max(use.pipelines, kMinPipelineBytes)),
        workers_(use.threads + use.more_threads) {
    pool_ = std::make_shared<batch::BufferPool>(use.recycled, options.budget);
    // The budget outlives the engine, so it holds a weak pointer to the pool.
    // After the end of the pool there is nothing to reclaim.
    options.budget->SetReclaim(
        [pool = std::weak_ptr<batch::BufferPool>(pool_)](uint64_t bytes) {
          if (const auto alive = pool.lock()) alive->Reclaim(bytes);
        });
    ready_share_ = std::make_shared<ReadyShare>(limit_.ready_bytes());
    // Set before the threads start. Readers have no gate, because they decode
    // nothing.
    for (WorkerState& worker : workers_) {
      worker.set_large_images(large_images_);
    }
    if (options.read_threads > 0) {
      ahead_ = std::make_unique<ReadAhead>(ReadAhead::Options{
          .threads = options.read_threads,
          .max_threads = static_cast<uint32_t>(use.read_threads),
          .buffer_bytes = use.read_buffers,
          .read = [](const Scheduler::Task& task, WorkerState& reader) {
            StepRun::Read(task, reader);
          }});
    }
    timer_ = std::make_unique<DeadlineTimer>("mr-admission");
    scheduler_ = std::make_unique<Scheduler>(Scheduler::Options{
        .threads = static_cast<uint32_t>(use.threads),
        .max_threads = static_cast<uint32_t>(workers_.size()),
        .run =
            [this](uint32_t worker, const Scheduler::Task& task) {
              StepRun::Work(task, workers_[worker]);
            },
        // Returns the scratch of a surplus worker to the system. Runs on that
        // worker's own thread, like every use of its state.
        .rest = [this](uint32_t worker) { workers_[worker].Clear(); },
        .sharing = {.task_nanos = kTaskNanos},
        .long_task_nanos = kLongTaskNanos});
    tuning_ = std::make_unique<ThreadTuning>(
        ThreadTuning::Options{.workers = options.adapt_threads,
                              .readers = options.adapt_read_threads,
                              .interval = tuning.interval,
                              .policy = std::move(tuning.policy)},
        scheduler_.get(), ahead_.get(), &clock_);
    // The ticks of the tuning run on the timer, which is stopped first.
    tuning_->Start(*timer_);
    // The threads exist already and do not read services_. They get it with the
    // first run, which Start() adds under the scheduler's lock.
    services_ = {.scheduler = scheduler_.get(),
                 .ahead = ahead_.get(),
                 .budget = budget_,
                 .admission_timeout = options.admission_timeout,
                 .timer = timer_.get(),
                 .large_images = large_images_,
                 .pool = pool_,
                 .clock = &clock_,
                 .tally = &tally_};
  }

  ~EngineImpl() override {
    // The order follows the work: the timer posts ends of runs, readers add
    // units, workers finish them. Each Stop() returns when its threads have
    // finished all added work, so the work that they pass on is still done. The
    // objects stay alive until all threads are joined, because workers that
    // finish rows of cancelled runs still use them: a worker may call ReadAhead
    // and the timer after their Stop(), and they accept no work then.
    timer_->Stop();
    if (ahead_ != nullptr) ahead_->Stop();
    scheduler_->Stop();
  }

  DatasetCatalog catalog() const override { return datasets_.Now()->catalog(); }

  absl::Status AddDataset(
      const std::string& name,
      std::shared_ptr<const storage::RecordSource> source) override {
    if (!datasets_change_) {
      return absl::FailedPreconditionError(
          "the datasets of this engine do not change");
    }
    if (name.empty() || source == nullptr) {
      return absl::InvalidArgumentError("a dataset has no name or no source");
    }
    MR_ASSIGN_OR_RETURN(const uint64_t scratch,
                        ScratchBytes(source->info(), make_stage_));
    if (scratch > limit_.scratch) {
      return absl::FailedPreconditionError(absl::StrCat(
          "a thread needs ", FormatByteSize(scratch), " for the samples of ",
          name, " and has ", FormatByteSize(limit_.scratch)));
    }
    datasets_.Set(name, std::move(source));
    DropPipelinesOf(name);
    return absl::OkStatus();
  }

  void RemoveDataset(const std::string& name) override {
    if (datasets_.Remove(name)) DropPipelinesOf(name);
  }

  std::string decoder_digest() const override { return decoder_digest_; }

  absl::StatusOr<std::shared_ptr<const Pipeline>> Open(
      const PipelineSpec& spec) override {
    MR_RETURN_IF_ERROR(CheckSpecSize(spec));
    const std::shared_ptr<const DatasetTable::Snapshot> now = datasets_.Now();
    const std::string asked = now->KeyOf(spec);
    if (auto found = cache_.Find(asked)) return Served(std::move(found));
    std::shared_ptr<const storage::RecordSource>
        synthetic;  // null: the spec has none
    plan::DatasetInfos infos = now->infos();
    if (HasSyntheticSource(spec)) {
      MR_ASSIGN_OR_RETURN(synthetic, MakeSynthetic(spec));
      infos = {{"", &synthetic->info()}};  // such a source has no name
    }
    MR_ASSIGN_OR_RETURN(const PipelineSpec resolved,
                        plan::ResolveSpec(spec, infos, operators_.get()));
    const std::string key = now->KeyOf(resolved);
    // The resolved spec must fit, too: the client sends it with every call.
    if (const size_t bytes = resolved.ByteSizeLong(); bytes > kMaxSpecBytes) {
      return WithErrorDetail(
          absl::InvalidArgumentError(absl::StrCat(
              "the pipeline spec takes ", FormatByteSize(spec.ByteSizeLong()),
              ", or ", FormatExactByteSize(bytes),
              " with all defaults written out; the maximum is ",
              FormatByteSize(kMaxSpecBytes))),
          MakeErrorDetail("plan"));
    }
    // Two threads may miss here and both build. Insert() keeps the first
    // pipeline, and the room of the second one is returned with it. Both are
    // equal, because a pipeline is a function of the key.
    std::shared_ptr<const BuiltPipeline> pipeline = cache_.Find(key);
    if (pipeline == nullptr) {
      // The room is taken before the build, so that threads that build at the
      // same time cannot exceed the bound together.
      MR_ASSIGN_OR_RETURN(std::shared_ptr<const void> room, TakeRoom(resolved));
      std::vector<BuiltPipeline::Dataset> datasets;
      for (const Source& source : resolved.sources()) {
        const std::string& name = source.dataset();
        if (source.has_synthetic()) {
          datasets.push_back({&synthetic->info(), synthetic});
        } else {
          datasets.push_back({infos.at(name), now->catalog().at(name)});
        }
      }
      auto built = BuiltPipeline::Build(resolved, std::move(datasets), limit_,
                                        make_stage_, decoder_digest_);
      if (!built.ok()) {
        ErrorDetail detail = MakeErrorDetail("plan");
        detail.set_dataset(resolved.sources(0).dataset());
        return WithErrorDetail(built.status(), detail);
      }
      // The returned pipeline owns the built one and its room. The room is
      // returned when the last run ends, not when the cache drops the pipeline.
      const BuiltPipeline* const made = built->get();
      pipeline = cache_.Insert(
          key, std::shared_ptr<const BuiltPipeline>(
                   made, [built = *std::move(built),
                          room = std::move(room)](const BuiltPipeline*) {}));
      // A dataset of `now` was replaced or removed during the build, and
      // DropPipelinesOf() may have come before Insert(). The caller still uses
      // the pipeline; nobody else could find it.
      if (datasets_.Now()->KeyOf(resolved) != key) {
        cache_.DropIf([made = pipeline.get()](const BuiltPipeline& cached) {
          return &cached == made;
        });
      }
    }
    if (asked != key) cache_.AddSpelling(key, asked);
    return Served(std::move(pipeline));
  }

  void OpenAsync(const PipelineSpec& spec, const Caller& caller,
                 std::function<bool()> wanted, Opened opened) override {
    if (absl::Status checked = CheckSpecSize(spec); !checked.ok()) {
      opened(std::move(checked));
      return;
    }
    if (auto found = cache_.Find(datasets_.Now()->KeyOf(spec))) {
      opened(Served(std::move(found)));
      return;
    }
    // Checked at once and not in the queue of the pipelines to build, because
    // the answer needs no work.
    if (absl::Status fits = CheckMayFit(spec); !fits.ok()) {
      opened(std::move(fits));
      return;
    }
    const std::string& connection =
        caller.connection.empty() ? caller.client : caller.connection;
    const uint64_t bytes = spec.SpaceUsedLong();
    if (absl::Status waits = AddOpening(connection, bytes); !waits.ok()) {
      opened(std::move(waits));
      return;
    }
    // All pipelines that are being built share the part of one plan in the
    // workers' time, first by address, then by connection. They do not share it
    // by client id: a program can invent ids, and each would get a turn.
    auto sharer = std::make_shared<Sharer>();
    sharer->plan = "opening";
    sharer->dataset = kOpening;
    sharer->client = connection;
    sharer->peer = caller.peer;
    scheduler_->PostShared(std::move(sharer), [this, spec, connection, bytes,
                                               wanted = std::move(wanted),
                                               opened = std::move(opened)] {
      // Removed before the build: the bound is for specs that wait.
      RemoveOpening(connection, bytes);
      if (wanted != nullptr && !wanted()) {
        opened(absl::CancelledError("the client ended the call"));
      } else {
        opened(Open(spec));
      }
    });
  }

  std::shared_ptr<const Sharer> SharerOf(
      const Pipeline& pipeline, const Caller& caller,
      const StepRange& range) const override {
    const OpenResponse& plan = pipeline.description();
    auto sharer = std::make_shared<Sharer>();
    sharer->plan = plan.plan_hash();
    sharer->dataset = plan.resolved_spec().sources(0).dataset();
    const auto weight = weights_.find(sharer->dataset);
    if (weight != weights_.end()) sharer->weight = weight->second;
    sharer->client = caller.client;
    sharer->peer = caller.peer;
    // A connection may have several loaders, and none of them is to wait for
    // the steps of the others. The id is that of one loader.
    if (caller.client != caller.connection) {
      sharer->first = {range.epoch, range.first_step,
                       calls_.fetch_add(1, std::memory_order_relaxed)};
    }
    return sharer;
  }

  absl::StatusOr<std::unique_ptr<Run>> Start(
      std::shared_ptr<const Pipeline> pipeline, const StepRange& range,
      Callbacks callbacks) override {
    auto built = std::dynamic_pointer_cast<const BuiltPipeline>(pipeline);
    MR_CHECK(built != nullptr) << "the pipeline is of another engine";
    MR_CHECK(callbacks.on_batch != nullptr && callbacks.on_done != nullptr);
    if (absl::Status checked = CheckRange(*built, range); !checked.ok()) {
      return WithErrorDetail(std::move(checked), MakeErrorDetail("plan"));
    }
    std::shared_ptr<ReadySet> ready;
    if (built->ready() != nullptr) {
      MR_ASSIGN_OR_RETURN(
          ready,
          built->ready()->Take(built->plan().steps().MaxRows(range.world_size),
                               *budget_, ready_share_, pool_));
    }
    StepRange of_sharer = range;
    if (range.sharer == nullptr) of_sharer.sharer = SharerOf(*built, {}, range);
    auto run =
        std::make_shared<StepRun>(&services_, std::move(built), of_sharer,
                                  std::move(callbacks), std::move(ready));
    run->Start();
    // on_batch and on_done may have been called already, and the run may be
    // over.
    return std::make_unique<Handle>(std::move(run));
  }

  uint64_t batch_budget_bytes() const override { return limit_.bytes; }

  uint64_t BudgetForBatches(uint64_t bytes) const override {
    if (limit_.with_budget == nullptr) return 0;
    return LargerBudget(limit_.whole_budget, [&](uint64_t budget) {
      return limit_.with_budget(budget).bytes >= bytes;
    });
  }

  const operators::Operators* operators() const override { return loaded_; }

  void ReleaseIdleMemory() override { pool_->ReleaseIdle(); }

  Stats stats() const override {
    Stats stats;
    stats.threads = scheduler_->threads();
    stats.max_threads = scheduler_->max_threads();
    if (ahead_ != nullptr) {
      stats.read_threads = ahead_->threads();
      stats.max_read_threads = ahead_->max_threads();
    }
    stats.thread_changes = tuning_->Changes();
    stats.bad_samples = tally_.bad_samples.load(std::memory_order_relaxed);
    stats.recent_bad_samples = tally_.bad_list.Newest();
    stats.refused_admissions =
        tally_.refused_admissions.load(std::memory_order_relaxed);
    stats.cached_pipelines = cache_.size();
    stats.pipeline_bytes = cache_.used_bytes();
    for (FairQueue::Share& share : scheduler_->Shares(2 * kSharesShown)) {
      if (stats.clients.size() == kSharesShown) break;
      if (share.dataset == kOpening && share.recent_share < kMinOpeningShare) {
        continue;
      }
      ClientShare& client = stats.clients.emplace_back();
      client.set_client(std::move(share.client));
      client.set_peer(std::move(share.peer));
      client.set_dataset(std::move(share.dataset));
      client.set_worker_seconds(share.seconds);
      client.set_recent_share(share.recent_share);
      client.set_active_streams(share.calls);
    }
    stats.stages = clock_.Read();
    stats.unused_bytes = UnusedBytes();
    stats.idle_thread_seconds = scheduler_->IdleThreadSeconds();
    return stats;
  }

 private:
  // The caller's handle of a run. Its destructor cancels the run, which lives
  // on in its jobs until on_done.
  class Handle final : public Run {
   public:
    explicit Handle(std::shared_ptr<StepRun> run) : run_(std::move(run)) {}
    ~Handle() override { Cancel(); }
    void Cancel() override {
      run_->Stop(absl::CancelledError("the run was cancelled"));
    }

   private:
    const std::shared_ptr<StepRun> run_;
  };

  // Bytes of `held_` and of the datasets' own reservations that are unused at
  // the moment. An estimate for display: the counters are read one after the
  // other. The scratch of the threads counts as used once any thread has
  // decoded.
  uint64_t UnusedBytes() const {
    uint64_t used =
        file_metadata_ + pool_->idle_bytes();  // includes borrowed memory
    if (ahead_ != nullptr) {
      const SampleBuffers& buffers = ahead_->buffers();
      used += buffers.held_bytes() + buffers.idle_bytes();
    }
    for (const StageTime& stage : clock_.Read()) {
      if (stage.stage() != "decode" || stage.samples() == 0) continue;
      used += scheduler_->threads() * limit_.scratch;
    }
    uint64_t unused = held_.bytes() - std::min(used, held_.bytes());
    for (const auto& [name, source] : catalog()) {
      unused += source->unused_bytes();
    }
    return unused;
  }

  // Frees the files of a dataset that is not served any more, as soon as no run
  // reads them. After the change of datasets_: a thread that adds a pipeline of
  // the old dataset later sees the change, and takes it out itself.
  void DropPipelinesOf(const std::string& name) {
    cache_.DropIf([&name](const BuiltPipeline& pipeline) {
      for (int i = 0; i < pipeline.sources(); ++i) {
        if (pipeline.info(i).name() == name) return true;
      }
      return false;
    });
  }

  // Checked first, because a larger budget would not help.
  static absl::Status CheckSpecSize(const PipelineSpec& spec) {
    if (spec.ByteSizeLong() <= kMaxSpecBytes) {
      return WithErrorDetail(plan::CheckSpecCounts(spec),
                             MakeErrorDetail("plan"));
    }
    return WithErrorDetail(
        absl::InvalidArgumentError(
            absl::StrCat("the pipeline spec takes ",
                         FormatExactByteSize(spec.ByteSizeLong()),
                         "; the maximum is ", FormatByteSize(kMaxSpecBytes))),
        MakeErrorDetail("plan"));
  }

  // Counts a spec that waits to be built, until RemoveOpening().
  // ResourceExhausted: too many bytes are waiting.
  absl::Status AddOpening(const std::string& connection, uint64_t bytes) {
    MutexLock lock(opening_mu_);
    const auto it = opening_.find(connection);
    const uint64_t own = it == opening_.end() ? 0 : it->second;
    // A connection's own bytes count twice, so it gets at most half of the room
    // that the others leave. A further connection finds room, however much one
    // connection sends.
    if (opening_bytes_ + bytes + own > kMaxOpeningBytes) {
      return AskAgain(absl::StrCat(
          "the pipeline specs that wait to be built take ",
          FormatByteSize(opening_bytes_), " of ",
          FormatByteSize(kMaxOpeningBytes), ", ", FormatByteSize(own),
          " of this size from this connection: retry, or request from another "
          "server"));
    }
    opening_[connection] += bytes;
    opening_bytes_ += bytes;
    return absl::OkStatus();
  }

  void RemoveOpening(const std::string& connection, uint64_t bytes) {
    MutexLock lock(opening_mu_);
    opening_bytes_ -= bytes;
    const auto it = opening_.find(connection);
    it->second -= bytes;
    if (it->second == 0) opening_.erase(it);
  }

  // Whether the pipeline of a resolved spec fits on this server when no other
  // pipeline is in use.
  absl::Status CheckCanFit(const PipelineSpec& resolved) const {
    const uint64_t bytes = PipelineBytes(resolved);
    if (bytes <= cache_.max_bytes()) return absl::OkStatus();
    return WithErrorDetail(
        absl::FailedPreconditionError(absl::StrCat(
            "the pipeline of ", resolved.sources_size(), " sources, ",
            resolved.transforms_size(), " transforms and ",
            resolved.outputs_size(), " outputs needs about ",
            FormatExactByteSize(bytes), ", and this server has ",
            FormatByteSize(cache_.max_bytes()),
            " for pipelines: use fewer sources or transforms",
            PipelineAdvice(bytes))),
        MakeErrorDetail("plan"));
  }

  // Refuses a spec whose pipeline can never fit before its sources are
  // resolved, because that time grows with the number of sources and
  // transforms.
  absl::Status CheckMayFit(const PipelineSpec& spec) const {
    if (MinPipelineBytes(spec) <= cache_.max_bytes()) return absl::OkStatus();
    // The budget in the message must be large enough for the resolved spec.
    MR_ASSIGN_OR_RETURN(const PipelineSpec resolved, ResolveByFirst(spec));
    return CheckCanFit(resolved);
  }

  // Returns what `spec` is resolved to, except for mistakes in the sources
  // after the first, which get the same defaults as the first.
  absl::StatusOr<PipelineSpec> ResolveByFirst(const PipelineSpec& spec) const {
    MR_RETURN_IF_ERROR(
        WithErrorDetail(plan::CheckSpec(spec), MakeErrorDetail("plan")));
    PipelineSpec first = spec;
    first.mutable_sources()->DeleteSubrange(1, spec.sources_size() - 1);
    const std::shared_ptr<const DatasetTable::Snapshot> now = datasets_.Now();
    MR_ASSIGN_OR_RETURN(
        PipelineSpec resolved,
        plan::ResolveSpec(first, now->infos(), operators_.get()));
    resolved.set_concatenate(spec.concatenate());
    if (spec.concatenate()) resolved.mutable_sources(0)->clear_weight();
    for (int i = 1; i < spec.sources_size(); ++i) {
      Source& source = *resolved.add_sources();
      source = spec.sources(i);
      if (!spec.concatenate()) source.set_weight(1);  // as long as any weight
      if (source.has_subset()) source.mutable_subset()->set_to(1);
      const auto info = now->infos().find(source.dataset());
      if (info != now->infos().end() && info->second->has_reader()) {
        *source.mutable_reader() = info->second->reader();
      }
    }
    return resolved;
  }

  // Room for a pipeline; the pipeline holds it.
  absl::StatusOr<std::shared_ptr<const void>> TakeRoom(
      const PipelineSpec& resolved) {
    MR_RETURN_IF_ERROR(CheckCanFit(resolved));
    const uint64_t bytes = PipelineBytes(resolved);
    std::shared_ptr<const void> room = cache_.TakeRoom(bytes);
    if (room != nullptr) return room;
    return AskAgain(absl::StrCat(
        "the pipelines in use need ", FormatByteSize(cache_.used_bytes()),
        " of the ", FormatByteSize(cache_.max_bytes()),
        " for pipelines, and this pipeline needs about ", FormatByteSize(bytes),
        ": retry, or request from another server"));
  }

  static std::string PipelineAdvice(uint64_t bytes) {
    const uint64_t budget = LargerBudget(
        0, [&](uint64_t one) { return PipelineRoom(one) >= bytes; });
    if (budget == 0) return "; no --memory_budget is large enough";
    return absl::StrCat(", or give the server --memory_budget=", budget >> 20,
                        "MiB or more");
  }

  // Returns `pipeline`. Unavailable: a file of its datasets has changed or is
  // lost; another server may have the complete dataset. Checked at every
  // Open(), also for a pipeline from the cache.
  static absl::StatusOr<std::shared_ptr<const Pipeline>> Served(
      std::shared_ptr<const BuiltPipeline> pipeline) {
    MR_RETURN_IF_ERROR(pipeline->CheckFiles());
    return pipeline;
  }

  // Returns the source of a synthetic spec. The pipelines built from it own it.
  absl::StatusOr<std::shared_ptr<const storage::RecordSource>> MakeSynthetic(
      const PipelineSpec& spec) const {
    absl::Status checked =
        refuse_synthetic_
            ? absl::FailedPreconditionError(
                  "this server refuses requests for synthetic data "
                  "(--refuse_synthetic): name a dataset, or use another server")
            : plan::CheckSpec(spec);
    if (!checked.ok()) {
      ErrorDetail detail = MakeErrorDetail("plan");
      detail.set_dataset(storage::kSyntheticName);
      return WithErrorDetail(std::move(checked), detail);
    }
    return storage::NewSyntheticSource(spec.sources(0).synthetic());
  }

  static absl::Status CheckRange(const BuiltPipeline& pipeline,
                                 const StepRange& range) {
    if (range.step_count == 0) {
      return absl::InvalidArgumentError(
          "the range of steps is empty: request at least one step");
    }
    MR_RETURN_IF_ERROR(pipeline.MaxPayloadBytes(range.world_size).status());
    const plan::EpochSteps& steps = pipeline.plan().steps();
    // The first step is checked separately, so that the message names the
    // requested step.
    MR_RETURN_IF_ERROR(
        steps.Rows(range.first_step, range.rank, range.world_size).status());
    if (range.step_count > steps.steps() - range.first_step) {
      return absl::OutOfRangeError(
          absl::StrCat("step ", range.first_step, " and the ",
                       CountText(range.step_count - 1, "step"),
                       " after it exceed the epoch, which has ",
                       CountText(steps.steps(), "step")));
    }
    return absl::OkStatus();
  }

  // Self-synchronised. Before all that may hold a source.
  DatasetTable datasets_;
  // Constant.
  const bool datasets_change_;
  ByteBudget* const budget_;
  const ImageStageFactory make_stage_;
  const BatchMemoryLimit limit_;
  decode::LargeImageGate* const large_images_;  // of limit_
  // Bytes of the budget that the engine holds for itself from start to end:
  // scratch of the threads, idle buffers, file_metadata_.
  const ByteBudget::Reservation held_;
  const uint64_t file_metadata_;
  const std::string decoder_digest_;
  const bool refuse_synthetic_;
  const operators::Operators* const loaded_;
  const std::unique_ptr<const plan::OperatorCatalog> operators_;
  const std::map<std::string, double> weights_;
  // Numbers of calls, for Sharer::first.
  mutable std::atomic<uint64_t> calls_{0};

  // Self-synchronised.
  PipelineCache cache_;
  Mutex opening_mu_;
  // Bytes of specs between AddOpening() and RemoveOpening(). opening_bytes_ is
  // the sum of opening_, whose entries are above 0.
  uint64_t opening_bytes_ MR_GUARDED_BY(opening_mu_) = 0;
  std::map<std::string, uint64_t> opening_ MR_GUARDED_BY(opening_mu_);
  // Only worker i uses workers_[i]; the constructor uses it before the threads
  // start. The size never changes.
  std::vector<WorkerState> workers_;
  // Self-synchronised. The timer and the scheduler are declared last, so that
  // they are destroyed first: their threads use the members above.
  std::shared_ptr<batch::BufferPool> pool_;
  std::unique_ptr<ReadAhead> ahead_;  // null: no read-ahead
  StageClock clock_;
  RunTally tally_;
  std::shared_ptr<ReadyShare> ready_share_;
  std::unique_ptr<DeadlineTimer> timer_;
  std::unique_ptr<Scheduler> scheduler_;
  RunServices services_;  // constant after the constructor
  std::unique_ptr<ThreadTuning> tuning_;
};

}  // namespace

absl::Status Engine::Options::Validate() const {
  if (budget == nullptr) {
    return absl::InvalidArgumentError("the engine needs a memory budget");
  }
  if (threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat(threads, " worker threads are too many: the maximum is ",
                     kMaxThreads, ", and more threads than CPUs do not help"));
  }
  if (read_threads > kMaxReadThreads) {
    return absl::InvalidArgumentError(absl::StrCat(
        read_threads, " read threads are too many: the maximum is ",
        kMaxReadThreads));
  }
  if (admission_timeout < absl::ZeroDuration()) {
    return absl::InvalidArgumentError("the admission timeout is negative");
  }
  for (const auto& [dataset, weight] : dataset_weights) {
    if (!(weight > 0) || !std::isfinite(weight)) {
      return absl::InvalidArgumentError(absl::StrCat("dataset ", dataset,
                                                     " has the weight ", weight,
                                                     ": it must be above 0"));
    }
  }
  if (max_cached_pipelines == 0) {
    return absl::InvalidArgumentError(
        "max_cached_pipelines is 0: cache at least one pipeline");
  }
  return absl::OkStatus();
}

absl::StatusOr<MemoryNeeds> NeedsOf(const Engine::Options& options,
                                    const DatasetCatalog& catalog,
                                    const ImageStageFactory& make_stage) {
  MemoryNeeds needs;
  needs.threads = options.threads == 0 ? AvailableCpus() : options.threads;
  if (options.adapt_threads) {
    const uint64_t of_cpus =
        uint64_t{Engine::kMaxAdaptiveThreadsOfCpu} * AvailableCpus();
    needs.max_threads = std::max(
        {needs.threads, uint64_t{Engine::kMaxAdaptiveThreads}, of_cpus});
  }
  needs.read_threads = options.read_threads;
  if (options.adapt_read_threads && options.read_threads > 0) {
    needs.read_threads =
        std::max(options.read_threads, Engine::kMaxAdaptiveReadThreads);
  }
  if (options.datasets_change) {
    DatasetInfo with_images;
    Field& image = *with_images.mutable_schema()->add_fields();
    image.set_name("x");
    image.set_kind(FIELD_KIND_ENCODED_IMAGE);
    MR_ASSIGN_OR_RETURN(needs.scratch_each,
                        ScratchBytes(with_images, make_stage));
    needs.reads_wait = true;
    needs.file_metadata = options.added_metadata_bytes;
  }
  bool images = options.datasets_change;
  for (const auto& [name, source] : catalog) {
    if (name.empty() || source == nullptr) {
      return absl::InvalidArgumentError("a dataset has no name or no source");
    }
    MR_ASSIGN_OR_RETURN(const uint64_t scratch,
                        ScratchBytes(source->info(), make_stage));
    needs.scratch_each = std::max(needs.scratch_each, scratch);
    needs.reads_wait |= source->read_wait() == storage::ReadWait::kRead;
    needs.file_metadata += source->metadata_bytes();
    const auto& fields = source->info().schema().fields();
    images |= std::any_of(fields.begin(), fields.end(), MayBeLargeImage);
  }
  if (images) {
    constexpr uint64_t kMax = kMaxImageBytes;
    needs.largest_image = kMax - std::min(kMax, needs.scratch_each);
  }
  return needs;
}

// Completes the refusal of an image that needs `bytes` beside the scratch of a
// thread.
std::string LargeImageAdvice(
    const MemoryNeeds& needs, const MemoryUse& use,
    const std::function<uint64_t(uint64_t budget)>& elsewhere, uint64_t bytes) {
  std::string text =
      absl::StrCat("the memory budget of ", FormatByteSize(use.budget), " has ",
                   FormatByteSize(use.large_images),
                   " for large images beside the scratch of a thread: ");
  if (bytes > needs.largest_image) {
    return absl::StrCat(text,
                        "none of its datasets has images, or pixels of 1 MiB");
  }
  const uint64_t budget =
      elsewhere == nullptr ? 0 : LargerBudget(use.budget, [&](uint64_t larger) {
        return PlanMemory(needs, larger, elsewhere(larger)).large_images >=
               bytes;
      });
  absl::StrAppend(&text, "raise --memory_budget");
  if (budget > 0) {
    // Larger images of the dataset may follow.
    absl::StrAppend(&text, " to ", budget >> 20, "MiB for this image");
  }
  return absl::StrCat(text, ", or make the image smaller");
}

absl::StatusOr<std::unique_ptr<Engine>> CreateEngine(
    const Engine::Options& options, DatasetCatalog catalog,
    ImageStageFactory make_stage, EngineTuning tuning) {
  MR_RETURN_IF_ERROR(options.Validate());
  MR_ASSIGN_OR_RETURN(const MemoryNeeds needs,
                      NeedsOf(options, catalog, make_stage));
  const MemoryUse use = PlanMemory(needs, options.budget->capacity(),
                                   options.budget_held_elsewhere_bytes);
  if (use.batches == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        use.Sentence(), "nothing for batches: raise --memory_budget",
        use.threads > 1 ? " or lower --threads" : ""));
  }
  BatchMemoryLimit limit;
  limit.bytes = use.batches;
  limit.arithmetic = use.Sentence();
  limit.threads = static_cast<uint32_t>(use.threads);
  limit.more_threads = static_cast<uint32_t>(use.more_threads);
  limit.whole_budget = use.budget;
  if (options.held_elsewhere_of != nullptr) {
    limit.with_budget =
        [needs, elsewhere = options.held_elsewhere_of](uint64_t budget) {
          const MemoryUse other = PlanMemory(needs, budget, elsewhere(budget));
          BatchMemoryLimit limit;
          limit.bytes = other.batches;
          limit.threads = static_cast<uint32_t>(other.threads);
          limit.more_threads = static_cast<uint32_t>(other.more_threads);
          return limit;
        };
  }
  limit.budget = options.budget;
  limit.timeout = options.admission_timeout;
  limit.scratch = use.scratch_each;
  limit.large_images = std::make_shared<decode::LargeImageGate>(
      static_cast<int64_t>(use.large_images), options.budget,
      [needs, use, elsewhere = options.held_elsewhere_of](int64_t bytes) {
        return LargeImageAdvice(needs, use, elsewhere,
                                static_cast<uint64_t>(bytes));
      });
  ByteBudget::Reservation held;
  if (!options.budget->TryReserve(use.held(), &held)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the memory budget of ", FormatByteSize(use.budget), " has ",
        FormatByteSize(options.budget->used()),
        " in use before the engine starts, which needs ",
        FormatByteSize(use.held()), " for its threads: raise --memory_budget"));
  }
  return std::make_unique<EngineImpl>(options, catalog, std::move(make_stage),
                                      use, std::move(limit), std::move(held),
                                      std::move(tuning));
}

}  // namespace millrace::pipeline
