#include "server/pipeline/engine_core.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/cgroup.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "proto/error_detail.h"
#include "server/pipeline/operator_catalog.h"
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
        refuse_synthetic_(options.refuse_synthetic),
        loaded_(options.operators),
        operators_(NewOperatorCatalog(options.operators)),
        cache_(options.max_cached_pipelines),
        workers_(use.threads + use.more_threads) {
    for (const auto& [name, info] : infos_) info_by_name_[name] = &info;
    parts_.budget = options.budget;
    parts_.pool = std::make_shared<BufferPool>(use.recycled);
    parts_.admission_timeout = options.admission_timeout;
    parts_.ready_share = std::make_shared<ReadyShare>(limit_.ready_bytes());
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
        .rest = [this](uint32_t worker) { workers_[worker].Clear(); }});
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

  absl::StatusOr<std::shared_ptr<const Pipeline>> Open(
      const PipelineSpec& spec) override {
    if (spec.ByteSizeLong() > kMaxSpecBytes) {
      return WithErrorDetail(absl::InvalidArgumentError(absl::StrCat(
                                 "a pipeline spec of ", spec.ByteSizeLong(),
                                 " bytes: at most ", kMaxSpecBytes)),
                             MakeErrorDetail("plan"));
    }
    const std::string asked = spec.SerializeAsString();
    if (auto found = cache_.Find(asked)) return found;
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
                                        make_stage_);
      if (!built.ok()) {
        ErrorDetail detail = MakeErrorDetail("plan");
        detail.set_dataset(resolved.sources(0).dataset());
        return WithErrorDetail(built.status(), detail);
      }
      pipeline = cache_.Insert(key, *std::move(built));
    }
    if (asked != key) cache_.AddSpelling(key, asked);
    return pipeline;
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
    auto run =
        std::make_shared<StepRun>(&parts_, std::move(built), range,
                                  std::move(callbacks), std::move(ready));
    run->Start();
    return std::make_unique<Handle>(std::move(run));
  }

  uint64_t batch_budget_bytes() const override { return limit_.bytes; }

  const Operators* operators() const override { return loaded_; }

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
    stats.stages = parts_.clock.Read();
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
  const ByteBudget::Reservation held_;  // scratch and idle buffers
  const bool refuse_synthetic_;
  const Operators* const loaded_;
  const std::unique_ptr<const OperatorCatalog> operators_;

  // Self-synchronised.
  PipelineCache cache_;
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
                     "nothing for batches: give a larger --memory_budget "
                     "or fewer --threads"));
  }
  BatchMemoryLimit limit;
  limit.bytes = use.batches;
  limit.arithmetic = use.Sentence();
  limit.threads = static_cast<uint32_t>(use.threads);
  limit.more_threads = static_cast<uint32_t>(use.more_threads);
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
