#include "server/pipeline/engine_core.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/cgroup.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "proto/error_detail.h"
#include "server/decode/limits.h"
#include "server/pipeline/fair_queue.h"
#include "server/pipeline/operator_catalog.h"
#include "server/pipeline/pipeline_bytes.h"
#include "server/pipeline/pipeline_cache.h"
#include "server/pipeline/step_run.h"
#include "server/pipeline/thread_tuning.h"
#include "server/pipeline/worker_state.h"
#include "server/plan/resolve.h"
#include "server/plan/spec_check.h"
#include "server/storage/synthetic/synthetic_source.h"

namespace millrace {
namespace {

constexpr uint32_t kMaxThreads = 4096;
constexpr size_t kMaxSpecBytes = 64 << 10;
// A task of a worker: long beside its dispatch, short beside a client's wait.
constexpr int64_t kTaskNanos = 1'000'000;
// A row that takes longer does not hold up other plans.
constexpr int64_t kLongTaskNanos = 5'000'000;
// Of the budget, beside it: for images that are larger than a thread's scratch
// is counted for while the budget has no room.
constexpr uint64_t kLargeImagesShare = 4;
// Small budgets have room for a few ordinary pipelines, too.
constexpr uint64_t kLeastPipelineBytes = 1 << 20;
// Specs that wait to be built, as protobuf keeps them. A connection has no more
// than it leaves free.
constexpr uint64_t kMaxOpeningBytes = 8 << 20;
// When a client whose pipeline found no room should ask again.
constexpr int64_t kRetryDelayMs = 500;
constexpr size_t kSharesShown = 10;
// Clients' part of building pipelines below which it is nothing to show.
constexpr double kLeastOpeningShare = 0.01;
constexpr char kOpening[] = "(opening pipelines)";

absl::Status AskAgain(std::string why) {
  ErrorDetail detail = MakeErrorDetail("plan");
  detail.set_retry_delay_ms(kRetryDelayMs);
  return WithErrorDetail(absl::ResourceExhaustedError(std::move(why)), detail);
}

// The scratch that one worker needs for a dataset's images.
absl::StatusOr<uint64_t> ScratchBytes(const DatasetInfo& info,
                                      const ImageStageFactory& make_stage) {
  uint64_t most = 0;
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
    most = std::max(most, stage->max_scratch_bytes());
  }
  return most;
}

bool HasSyntheticSource(const PipelineSpec& spec) {
  for (const Source& source : spec.sources()) {
    if (source.has_synthetic()) return true;
  }
  return false;
}

class EngineImpl final : public Engine {
 public:
  EngineImpl(const Options& options, DatasetCatalog catalog,
             std::map<std::string, DatasetInfo> infos,
             ImageStageFactory make_stage, const MemoryUse& use,
             BatchMemoryLimit limit, ByteBudget::Reservation held,
             EngineTuning tuning)
      : catalog_(std::move(catalog)),
        infos_(std::move(infos)),
        make_stage_(std::move(make_stage)),
        limit_(std::move(limit)),
        held_(std::move(held)),
        file_metadata_(use.file_metadata),
        decoder_digest_(options.decoder_digest),
        refuse_synthetic_(options.refuse_synthetic),
        loaded_(options.operators),
        operators_(NewOperatorCatalog(options.operators)),
        weights_(options.dataset_weights),
        cache_(options.max_cached_pipelines,
               std::max(use.pipelines, kLeastPipelineBytes)),
        workers_(use.threads + use.more_threads) {
    for (const auto& [name, info] : infos_) info_by_name_[name] = &info;
    parts_.budget = options.budget;
    parts_.pool = std::make_shared<BufferPool>(use.recycled, options.budget);
    options.budget->SetReclaim(
        [pool = std::weak_ptr<BufferPool>(parts_.pool)](uint64_t bytes) {
          if (const auto alive = pool.lock()) alive->Reclaim(bytes);
        });
    parts_.admission_timeout = options.admission_timeout;
    parts_.ready_share = std::make_shared<ReadyShare>(limit_.ready_bytes());
    parts_.large_images = std::make_unique<LargeImageGate>(
        std::min<int64_t>(kMaxDecodedBytes, use.budget / kLargeImagesShare),
        options.budget);
    for (WorkerState& worker : workers_) {
      worker.set_large_images(parts_.large_images.get());
    }
    if (options.read_threads > 0) {
      parts_.ahead = std::make_unique<ReadAhead>(ReadAhead::Options{
          .threads = options.read_threads,
          .most_threads = static_cast<uint32_t>(use.read_threads),
          .buffer_bytes = use.read_buffers,
          .read = [](const Scheduler::Task& task, WorkerState& reader) {
            StepRun::Read(task, reader);
          }});
    }
    parts_.timer = std::make_unique<DeadlineTimer>("mr-admission");
    parts_.scheduler = std::make_unique<Scheduler>(Scheduler::Options{
        .threads = static_cast<uint32_t>(use.threads),
        .most_threads = static_cast<uint32_t>(workers_.size()),
        .run =
            [this](uint32_t worker, const Scheduler::Task& task) {
              StepRun::Work(task, workers_[worker]);
            },
        // The memory of one that is too many goes back to the system.
        .rest = [this](uint32_t worker) { workers_[worker].Clear(); },
        .sharing = {.task_nanos = kTaskNanos},
        .long_task_nanos = kLongTaskNanos});
    tuning_ = std::make_unique<ThreadTuning>(
        ThreadTuning::Options{.workers = options.adapt_threads,
                              .readers = options.adapt_read_threads,
                              .interval = tuning.interval,
                              .policy = std::move(tuning.policy)},
        parts_.scheduler.get(), parts_.ahead.get(), &parts_.clock);
    tuning_->Start(*parts_.timer);
  }

  ~EngineImpl() override {
    // First what may add to the scheduler, then the workers. Both stay in
    // place: workers that finish the rows of cancelled runs still use them.
    parts_.timer->Stop();
    if (parts_.ahead != nullptr) parts_.ahead->Stop();
    parts_.scheduler->Stop();
  }

  const DatasetCatalog& catalog() const override { return catalog_; }

  std::string decoder_digest() const override { return decoder_digest_; }

  absl::StatusOr<std::shared_ptr<const Pipeline>> Open(
      const PipelineSpec& spec) override {
    MR_RETURN_IF_ERROR(CheckSpecSize(spec));
    const std::string asked = spec.SerializeAsString();
    if (auto found = cache_.Find(asked)) return Served(std::move(found));
    std::shared_ptr<const RecordSource> synthetic;  // null: none is asked for
    DatasetInfos infos = info_by_name_;
    if (HasSyntheticSource(spec)) {
      MR_ASSIGN_OR_RETURN(synthetic, MakeSynthetic(spec));
      infos = {{"", &synthetic->info()}};  // such a source names no dataset
    }
    MR_ASSIGN_OR_RETURN(const PipelineSpec resolved,
                        ResolveSpec(spec, infos, operators_.get()));
    const std::string key = resolved.SerializeAsString();
    // The client sends this one with every call, where it must fit, too.
    if (key.size() > kMaxSpecBytes) {
      return WithErrorDetail(
          absl::InvalidArgumentError(absl::StrCat(
              "a pipeline spec of ", spec.ByteSizeLong(),
              " bytes, which grows to ", key.size(),
              " with what it leaves out filled in: at most ", kMaxSpecBytes)),
          MakeErrorDetail("plan"));
    }
    std::shared_ptr<const BuiltPipeline> pipeline = cache_.Find(key);
    if (pipeline == nullptr) {
      MR_ASSIGN_OR_RETURN(std::shared_ptr<const void> room, TakeRoom(resolved));
      std::vector<BuiltPipeline::Dataset> datasets;
      for (const Source& source : resolved.sources()) {
        const std::string& name = source.dataset();
        if (source.has_synthetic()) {
          datasets.push_back({&synthetic->info(), synthetic});
        } else {
          datasets.push_back({&infos_.at(name), catalog_.at(name)});
        }
      }
      auto built = BuiltPipeline::Build(resolved, std::move(datasets), limit_,
                                        make_stage_, decoder_digest_);
      if (!built.ok()) {
        ErrorDetail detail = MakeErrorDetail("plan");
        detail.set_dataset(resolved.sources(0).dataset());
        return WithErrorDetail(built.status(), detail);
      }
      const BuiltPipeline* const made = built->get();
      pipeline = cache_.Insert(
          key, std::shared_ptr<const BuiltPipeline>(
                   made, [built = *std::move(built),
                          room = std::move(room)](const BuiltPipeline*) {}));
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
    if (auto found = cache_.Find(spec.SerializeAsString())) {
      opened(Served(std::move(found)));
      return;
    }
    // Not in turn with those that are built.
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
    // All that are being built share one plan's part, by address, then by
    // connection: a program can invent client ids, each of which would have a
    // turn.
    auto sharer = std::make_shared<Sharer>();
    sharer->plan = "opening";
    sharer->dataset = kOpening;
    sharer->client = connection;
    sharer->peer = caller.peer;
    parts_.scheduler->PostShared(
        std::move(sharer),
        [this, spec, connection, bytes, wanted = std::move(wanted),
         opened = std::move(opened)] {
          RemoveOpening(connection, bytes);
          if (wanted != nullptr && !wanted()) {
            opened(absl::CancelledError("the client ended the call"));
          } else {
            opened(Open(spec));
          }
        });
  }

  std::shared_ptr<const Sharer> SharerOf(const Pipeline& pipeline,
                                         const Caller& caller) const override {
    const OpenResponse& plan = pipeline.description();
    auto sharer = std::make_shared<Sharer>();
    sharer->plan = plan.plan_hash();
    sharer->dataset = plan.resolved_spec().sources(0).dataset();
    const auto weight = weights_.find(sharer->dataset);
    if (weight != weights_.end()) sharer->weight = weight->second;
    sharer->client = caller.client;
    sharer->peer = caller.peer;
    return sharer;
  }

  absl::StatusOr<std::unique_ptr<Run>> Start(
      std::shared_ptr<const Pipeline> pipeline, const StepRange& range,
      Callbacks callbacks) override {
    auto built = std::dynamic_pointer_cast<const BuiltPipeline>(pipeline);
    MR_CHECK(built != nullptr) << "a pipeline of another engine";
    MR_CHECK(callbacks.on_batch != nullptr && callbacks.on_done != nullptr);
    if (absl::Status checked = CheckRange(*built, range); !checked.ok()) {
      return WithErrorDetail(std::move(checked), MakeErrorDetail("plan"));
    }
    std::shared_ptr<ReadySet> ready;
    if (built->ready() != nullptr) {
      MR_ASSIGN_OR_RETURN(ready,
                          built->ready()->Take(
                              built->plan().steps().MaxRows(range.world_size),
                              *parts_.budget, parts_.ready_share, parts_.pool));
    }
    StepRange of_sharer = range;
    if (range.sharer == nullptr) of_sharer.sharer = SharerOf(*built, {});
    auto run =
        std::make_shared<StepRun>(&parts_, std::move(built), of_sharer,
                                  std::move(callbacks), std::move(ready));
    run->Start();
    return std::make_unique<Handle>(std::move(run));
  }

  uint64_t batch_budget_bytes() const override { return limit_.bytes; }

  uint64_t BudgetForBatches(uint64_t bytes) const override {
    if (limit_.with_budget == nullptr) return 0;
    return LargerBudget(limit_.whole_budget, [&](uint64_t budget) {
      return limit_.with_budget(budget).bytes >= bytes;
    });
  }

  const Operators* operators() const override { return loaded_; }

  void ReleaseIdleMemory() override { parts_.pool->ReleaseIdle(); }

  Stats stats() const override {
    Stats stats;
    stats.threads = parts_.scheduler->threads();
    stats.most_threads = parts_.scheduler->most_threads();
    if (parts_.ahead != nullptr) {
      stats.read_threads = parts_.ahead->threads();
      stats.most_read_threads = parts_.ahead->most_threads();
    }
    stats.thread_changes = tuning_->Changes();
    stats.bad_samples = parts_.bad_samples.load(std::memory_order_relaxed);
    stats.recent_bad_samples = parts_.bad_list.Newest();
    stats.refused_admissions =
        parts_.refused_admissions.load(std::memory_order_relaxed);
    stats.cached_pipelines = cache_.size();
    stats.pipeline_bytes = cache_.used_bytes();
    for (FairQueue::Share& share : parts_.scheduler->Shares(2 * kSharesShown)) {
      if (stats.clients.size() == kSharesShown) break;
      if (share.dataset == kOpening &&
          share.recent_share < kLeastOpeningShare) {
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
    stats.stages = parts_.clock.Read();
    stats.unused_bytes = UnusedBytes();
    stats.idle_thread_seconds = parts_.scheduler->IdleThreadSeconds();
    return stats;
  }

 private:
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

  // A thread's scratch counts as used once the thread may have decoded.
  uint64_t UnusedBytes() const {
    uint64_t used = file_metadata_ +
                    parts_.pool->idle_bytes();  // what is borrowed as well
    if (parts_.ahead != nullptr) {
      const SampleBuffers& buffers = parts_.ahead->buffers();
      used += buffers.held_bytes() + buffers.idle_bytes();
    }
    for (const StageTime& stage : parts_.clock.Read()) {
      if (stage.stage() != "decode" || stage.samples() == 0) continue;
      used += parts_.scheduler->threads() * limit_.scratch;
    }
    uint64_t unused = held_.bytes() - std::min(used, held_.bytes());
    for (const auto& [name, source] : catalog_) {
      unused += source->unused_bytes();
    }
    return unused;
  }

  // Before any memory is counted: no budget mends what is refused here.
  static absl::Status CheckSpecSize(const PipelineSpec& spec) {
    if (spec.ByteSizeLong() <= kMaxSpecBytes) {
      return WithErrorDetail(CheckSpecCounts(spec), MakeErrorDetail("plan"));
    }
    return WithErrorDetail(absl::InvalidArgumentError(absl::StrCat(
                               "a pipeline spec of ", spec.ByteSizeLong(),
                               " bytes: at most ", kMaxSpecBytes)),
                           MakeErrorDetail("plan"));
  }

  // Counts a spec that waits to be built, unless too many do.
  absl::Status AddOpening(const std::string& connection, uint64_t bytes) {
    MutexLock lock(opening_mu_);
    const auto it = opening_.find(connection);
    const uint64_t own = it == opening_.end() ? 0 : it->second;
    // Each further connection finds room, however many one of them sends.
    if (opening_bytes_ + bytes + own > kMaxOpeningBytes) {
      return AskAgain(absl::StrCat(
          "pipeline specs of ", opening_bytes_, " of at most ",
          kMaxOpeningBytes, " bytes wait to be built already, ", own,
          " of them of this connection: ask again, or ask another server"));
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

  // Whether the pipeline of a resolved spec has room on this server when no
  // other one is in use.
  absl::Status CheckCanFit(const PipelineSpec& resolved) const {
    const uint64_t bytes = PipelineBytes(resolved);
    if (bytes <= cache_.max_bytes()) return absl::OkStatus();
    return WithErrorDetail(
        absl::FailedPreconditionError(absl::StrCat(
            "a pipeline of ", resolved.sources_size(), " sources, ",
            resolved.transforms_size(), " transforms and ",
            resolved.outputs_size(), " outputs takes about ", bytes,
            " bytes, and this server has ", cache_.max_bytes(),
            " for pipelines: take fewer sources or transforms",
            PipelineAdvice(bytes))),
        MakeErrorDetail("plan"));
  }

  // Refuses a spec whose pipeline can never fit before all of its sources are
  // resolved: that takes longer, the more sources and transforms there are.
  absl::Status CheckMayFit(const PipelineSpec& spec) const {
    if (LeastPipelineBytes(spec) <= cache_.max_bytes()) return absl::OkStatus();
    // The budget that is named must be enough for what the spec grows to.
    MR_ASSIGN_OR_RETURN(const PipelineSpec resolved, ResolveByFirst(spec));
    return CheckCanFit(resolved);
  }

  // What `spec` is resolved to, but for mistakes in its further sources, which
  // are written out as the first one is.
  absl::StatusOr<PipelineSpec> ResolveByFirst(const PipelineSpec& spec) const {
    MR_RETURN_IF_ERROR(
        WithErrorDetail(CheckSpec(spec), MakeErrorDetail("plan")));
    PipelineSpec first = spec;
    first.mutable_sources()->DeleteSubrange(1, spec.sources_size() - 1);
    MR_ASSIGN_OR_RETURN(PipelineSpec resolved,
                        ResolveSpec(first, info_by_name_, operators_.get()));
    resolved.set_concatenate(spec.concatenate());
    if (spec.concatenate()) resolved.mutable_sources(0)->clear_weight();
    for (int i = 1; i < spec.sources_size(); ++i) {
      Source& source = *resolved.add_sources();
      source = spec.sources(i);
      if (!spec.concatenate()) source.set_weight(1);  // as long as any other
      if (source.has_subset()) source.mutable_subset()->set_to(1);
      const auto info = info_by_name_.find(source.dataset());
      if (info != info_by_name_.end() && info->second->has_reader()) {
        *source.mutable_reader() = info->second->reader();
      }
    }
    return resolved;
  }

  // Held by the pipeline that is built.
  absl::StatusOr<std::shared_ptr<const void>> TakeRoom(
      const PipelineSpec& resolved) {
    MR_RETURN_IF_ERROR(CheckCanFit(resolved));
    const uint64_t bytes = PipelineBytes(resolved);
    std::shared_ptr<const void> room = cache_.TakeRoom(bytes);
    if (room != nullptr) return room;
    return AskAgain(absl::StrCat(
        "the pipelines in use take ", cache_.used_bytes(), " of ",
        cache_.max_bytes(), " bytes for pipelines, and this one about ", bytes,
        ": ask again, or ask another server"));
  }

  static std::string PipelineAdvice(uint64_t bytes) {
    const uint64_t budget =
        LargerBudget(0, [&](uint64_t one) { return PipelineRoom(one) >= bytes; });
    if (budget == 0) return "; no --memory_budget is large enough";
    return absl::StrCat(", or give the server --memory_budget=", budget >> 20,
                        "MiB or more");
  }

  // Another server may have files that are whole.
  static absl::StatusOr<std::shared_ptr<const Pipeline>> Served(
      std::shared_ptr<const BuiltPipeline> pipeline) {
    MR_RETURN_IF_ERROR(pipeline->CheckFiles());
    return pipeline;
  }

  // Owned by the pipelines that are built of it.
  absl::StatusOr<std::shared_ptr<const RecordSource>> MakeSynthetic(
      const PipelineSpec& spec) const {
    absl::Status checked =
        refuse_synthetic_
            ? absl::FailedPreconditionError(
                  "this server makes no synthetic data (--refuse_synthetic): "
                  "name a dataset, or ask a server that does")
            : CheckSpec(spec);
    if (!checked.ok()) {
      ErrorDetail detail = MakeErrorDetail("plan");
      detail.set_dataset(kSyntheticName);
      return WithErrorDetail(std::move(checked), detail);
    }
    return NewSyntheticSource(spec.sources(0).synthetic());
  }

  static absl::Status CheckRange(const BuiltPipeline& pipeline,
                                 const StepRange& range) {
    if (range.step_count == 0) {
      return absl::InvalidArgumentError(
          "an empty range of steps: ask for at least one");
    }
    MR_RETURN_IF_ERROR(pipeline.MaxPayloadBytes(range.world_size).status());
    const StepTable& steps = pipeline.plan().steps();
    // The first step too: the message names the one that is asked for.
    MR_RETURN_IF_ERROR(
        steps.Rows(range.first_step, range.rank, range.world_size).status());
    if (range.step_count > steps.steps() - range.first_step) {
      return absl::OutOfRangeError(absl::StrCat(
          "steps ", range.first_step, " and the ", range.step_count - 1,
          " after it run past the end of the epoch, which has ", steps.steps(),
          " steps"));
    }
    return absl::OkStatus();
  }

  // Constant.
  const DatasetCatalog catalog_;
  const std::map<std::string, DatasetInfo> infos_;
  DatasetInfos info_by_name_;
  const ImageStageFactory make_stage_;
  const BatchMemoryLimit limit_;
  // Scratch, idle buffers and file_metadata_.
  const ByteBudget::Reservation held_;
  const uint64_t file_metadata_;
  const std::string decoder_digest_;
  const bool refuse_synthetic_;
  const Operators* const loaded_;
  const std::unique_ptr<const OperatorCatalog> operators_;
  const std::map<std::string, double> weights_;

  // Self-synchronised.
  PipelineCache cache_;
  Mutex opening_mu_;
  // Of specs that wait to be built: in all, by connection.
  uint64_t opening_bytes_ MR_GUARDED_BY(opening_mu_) = 0;
  std::map<std::string, uint64_t> opening_ MR_GUARDED_BY(opening_mu_);
  // Each belongs to its thread.
  std::vector<WorkerState> workers_;
  EngineParts parts_;
  std::unique_ptr<ThreadTuning> tuning_;
};

}  // namespace

absl::Status Engine::Options::Validate() const {
  if (budget == nullptr) {
    return absl::InvalidArgumentError("the engine needs a memory budget");
  }
  if (threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat(threads, " worker threads: at most ", kMaxThreads,
                     ", and more than the machine has CPUs gains nothing"));
  }
  if (read_threads > kMaxReadThreads) {
    return absl::InvalidArgumentError(absl::StrCat(
        read_threads, " threads to read: at most ", kMaxReadThreads));
  }
  if (admission_timeout < absl::ZeroDuration()) {
    return absl::InvalidArgumentError("a negative admission timeout");
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
        "a cache of no pipeline: keep at least one");
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
        uint64_t{Engine::kMostThreadsOfCpu} * AvailableCpus();
    needs.most_threads =
        std::max({needs.threads, uint64_t{Engine::kMostThreads}, of_cpus});
  }
  needs.read_threads = options.read_threads;
  if (options.adapt_read_threads && options.read_threads > 0) {
    needs.read_threads =
        std::max(options.read_threads, Engine::kMostReadThreads);
  }
  for (const auto& [name, source] : catalog) {
    if (name.empty() || source == nullptr) {
      return absl::InvalidArgumentError(
          "a dataset without a name or without a source");
    }
    MR_ASSIGN_OR_RETURN(const uint64_t scratch,
                        ScratchBytes(source->info(), make_stage));
    needs.scratch_each = std::max(needs.scratch_each, scratch);
    needs.reads_wait |= source->read_wait() == ReadWait::kRead;
    needs.file_metadata += source->metadata_bytes();
  }
  return needs;
}

absl::StatusOr<std::unique_ptr<Engine>> CreateEngine(
    const Engine::Options& options, DatasetCatalog catalog,
    ImageStageFactory make_stage, EngineTuning tuning) {
  MR_RETURN_IF_ERROR(options.Validate());
  MR_ASSIGN_OR_RETURN(const MemoryNeeds needs,
                      NeedsOf(options, catalog, make_stage));
  std::map<std::string, DatasetInfo> infos;
  for (const auto& [name, source] : catalog) {
    DatasetInfo info = source->info();
    info.set_name(name);
    infos.emplace(name, std::move(info));
  }
  const MemoryUse use = PlanMemory(needs, options.budget->capacity(),
                                   options.budget_held_elsewhere_bytes);
  if (use.batches == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(use.Sentence(),
                     "nothing for batches: give a larger --memory_budget",
                     use.threads > 1 ? " or fewer --threads" : ""));
  }
  BatchMemoryLimit limit;
  limit.bytes = use.batches;
  limit.arithmetic = use.Sentence();
  limit.threads = static_cast<uint32_t>(use.threads);
  limit.more_threads = static_cast<uint32_t>(use.more_threads);
  limit.whole_budget = use.budget;
  if (options.held_elsewhere_of != nullptr) {
    limit.with_budget = [needs, elsewhere = options.held_elsewhere_of](
                            uint64_t budget) {
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
  ByteBudget::Reservation held;
  if (!options.budget->TryReserve(use.held(), &held)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the memory budget of ", use.budget, " bytes has ",
        options.budget->used(),
        " in use before the engine starts, which needs ", use.held(),
        " for its threads: give a larger --memory_budget"));
  }
  return std::make_unique<EngineImpl>(
      options, std::move(catalog), std::move(infos), std::move(make_stage), use,
      std::move(limit), std::move(held), std::move(tuning));
}

}  // namespace millrace
