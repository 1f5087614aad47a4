#include "trainer/run.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/cuda.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/loader.h"
#include "client/receive/describe.h"
#include "common/atomic_file.h"
#include "common/cgroup.h"
#include "common/count_text.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "proto/error_detail.h"
#include "trainer/audit_complete.h"
#include "trainer/audit_start.h"
#include "trainer/bad_sample_report.h"
#include "trainer/batch_reader.h"
#include "trainer/checkpoint.h"
#include "trainer/ddp/agree.h"
#include "trainer/ddp/communicator.h"
#include "trainer/ddp/replicas.h"
#include "trainer/epoch_losses.h"
#include "trainer/error_text.h"
#include "trainer/evaluation.h"
#include "trainer/evaluation_report.h"
#include "trainer/failed_batch.h"
#include "trainer/files.h"
#include "trainer/learner.h"
#include "trainer/logs/run_monitor.h"
#include "trainer/models/model.h"
#include "trainer/models/model_name.h"
#include "trainer/optim/batch_groups.h"
#include "trainer/optim/precision.h"
#include "trainer/optim/updater.h"
#include "trainer/pipeline_text.h"
#include "trainer/position_text.h"
#include "trainer/progress.h"
#include "trainer/resume.h"
#include "trainer/specs.h"
#include "trainer/step_losses.h"
#include "trainer/torch_error.h"
#include "trainer/training_step.h"
#include "trainer/weights/model_weights.h"

namespace millrace {
namespace {

// Ranks wait for one another so much longer than each waits for data.
constexpr absl::Duration kDataMargin = absl::Seconds(30);
// For the servers to give a batch once more that is kept for a look at it.
constexpr absl::Duration kKeepTime = absl::Seconds(20);
// A rank other than 0 says why it waited when it did for so much of an epoch.
constexpr double kWorthSaying = 0.05;
// On a device whose losses have to be fetched, they are looked at this often.
constexpr uint64_t kLossCheckSteps = 50;
// The losses of --step_losses are summed over the ranks and written this often.
constexpr uint64_t kLossWriteSteps = 50;
// For ranks that do not answer, without --rank_timeout.
constexpr absl::Duration kRankTimeout = absl::Minutes(2);

void LogError(const absl::Status& status) {
  if (!status.ok()) MR_LOG(ERROR) << ErrorText(status);
}

absl::StatusOr<torch::Device> ChooseDevice(const TrainerConfig& config,
                                           const RankEnv& env) {
  if (config.device == "cpu") return torch::Device(torch::kCPU);
  const auto gpus = static_cast<uint32_t>(torch::cuda::device_count());
  if (gpus == 0) {
    if (config.device == "auto") return torch::Device(torch::kCPU);
    return absl::FailedPreconditionError(
        "--device=cuda, but this process sees no CUDA device; look at the "
        "driver, at CUDA_VISIBLE_DEVICES and at MILLRACE_TORCH_LIB, or train "
        "without a GPU by --device=cpu");
  }
  MR_ASSIGN_OR_RETURN(const uint32_t gpu, GpuOf(env, gpus));
  const torch::Device device(torch::kCUDA, static_cast<c10::DeviceIndex>(gpu));
  // What is made without naming a device is made on this one, by us and by
  // NCCL.
  c10::impl::VirtualGuardImpl(torch::kCUDA).setDevice(device);
  return device;
}

// `error` of a question to the servers. What none of them knows, a dataset or a
// preset, is a mistake of the flags that name it, and so is a pipeline that a
// server cannot run.
absl::Status OfNames(absl::Status error) {
  const bool refused = absl::IsUnimplemented(error) && HasErrorDetail(error);
  return absl::IsNotFound(error) || refused ? UsageError(std::move(error))
                                            : error;
}

// `error` of opening the training's pipeline. Where neither a flag nor the
// dataset names one the server advises transforms, for it knows no presets'
// uses.
absl::Status WithPresetAdvice(const absl::Status& error,
                              const TrainerConfig& config,
                              const RunSpecs& specs) {
  if (!absl::IsInvalidArgument(error) || !config.pipeline.empty() ||
      !specs.train.preset().empty() ||
      !absl::StrContains(error.message(), "decode_image")) {
    return error;
  }
  return WithWords(error, "",
                   "; --preset=NAME gives such transforms by one name, "
                   "--preset=imagenet_train for photographs");
}

class TrainingRun {
 public:
  TrainingRun(const TrainerConfig& config, const RankEnv& env, StopSignal& stop)
      : config_(config),
        env_(env),
        stop_(stop),
        progress_({.enabled = env.rank == 0,
                   .terminal = isatty(STDOUT_FILENO) == 1,
                   .log_every = config.log_every}) {}
  ~TrainingRun() { stop_.OnSignal(nullptr); }

  absl::Status SetUp();
  absl::Status Train();
  absl::Status WriteCheckpointHere();
  // After an error of Train(): keeps the batch that led to it, where that is
  // known; the same error, with what can be done about it.
  absl::Status KeepFailedBatch(const absl::Status& error) const;
  // Tells the other ranks, if they have joined.
  void Fail(const absl::Status& why) const {
    if (ranks_ == nullptr) return;
    ranks_->Fail(absl::Status(why.code(), ErrorText(why)));
  }
  // Training is over, well or not.
  void EndMonitor() { monitor_->End(); }
  absl::Status SaveWeightsHere();
  // After an error of Train(): writes the losses that are known without the
  // other ranks.
  absl::Status KeepLosses();
  absl::StatusOr<TrainSummary> Finish();

 private:
  absl::Status OpenData();
  absl::Status StartLosses();
  absl::Status StartAudit();
  absl::Status StartMonitor();
  absl::Status CheckEvaluation();
  void SayPipelines();
  absl::Status MakeModelAndOptimizer();
  DataLoader::Options LoaderOptions(const PipelineSpec& spec) const;
  BatchReader::Options ReaderOptions(LossKind loss) const;

  absl::Status TrainEpoch(uint64_t epoch);
  absl::Status Evaluate();
  absl::Status EvaluateModel();
  // Does the work while the model has the averaged weights, where there are
  // any.
  absl::Status WithAverage(const std::function<absl::Status()>& work);
  // See ddp/replicas.h; makes rank 0's buffers those of all.
  absl::Status Verify(absl::string_view when);
  // See ddp/agree.h; before the next step.
  absl::Status Agree(absl::Status mine, bool* together = nullptr);
  // Not OK: the model's weights are not those of position_, and why.
  absl::Status WeightsAreKnown() const;
  std::vector<torch::Tensor> Buffers() const;
  // Of a valid --precision.
  Precision precision() const {
    return *PrecisionByName(config_.precision, device_.type());
  }
  absl::Status Stopped() const;

  const TrainerConfig& config_;
  const RankEnv& env_;
  StopSignal& stop_;
  Progress progress_;

  ResumePoint resume_;
  RunSpecs specs_;
  torch::Device device_ = torch::kCPU;
  std::unique_ptr<BadSampleReport> bad_samples_;
  std::unique_ptr<DataLoader> loader_;
  std::unique_ptr<BatchReader> reader_;
  std::unique_ptr<Evaluation> evaluation_;  // null: none
  std::unique_ptr<Communicator> ranks_;
  std::string model_identity_;  // what a checkpoint keeps of --model
  std::shared_ptr<Classifier> model_;
  std::unique_ptr<Loss> loss_;
  std::unique_ptr<Updater> updater_;
  std::unique_ptr<TrainingStep> step_;
  std::unique_ptr<RunMonitor> monitor_;

  std::string audit_file_;  // of this rank; empty: none
  uint64_t audit_attempt_ = 0;
  uint64_t batches_ = 0;  // that the loader has given

  bool done_ = false;                     // all epochs were trained before
  Position position_;                     // the next step to train
  uint64_t steps_ = 0;                    // since the very start
  uint64_t run_steps_ = 0;                // of this process
  std::optional<uint64_t> checkpointed_;  // steps_ in the last file written
  std::string lost_weights_;  // why the weights are of no position; or empty
  std::unique_ptr<EpochLosses> losses_;  // of the epoch that is trained
  // All ranks agree on it: losses are gathered within an epoch, too.
  bool gathers_losses_ = false;
  TrainSummary summary_;
};

DataLoader::Options TrainingRun::LoaderOptions(const PipelineSpec& spec) const {
  DataLoader::Options options;
  options.endpoint = config_.endpoint;
  options.spec = spec;
  options.rank = env_.rank;
  options.world_size = env_.world_size;
  options.device = device_;
  options.device_prefetch = config_.device_prefetch;
  options.prepare_ahead = config_.prepare_ahead;
  options.window = config_.window;
  options.same_host = config_.same_host ? SameHost::kAuto : SameHost::kOff;
  options.verify_payload = config_.verify_payload;
  options.open_timeout = config_.timeout;
  options.next_timeout = config_.data_timeout;
  options.step_timeout = config_.step_timeout;
  options.hedge_share = config_.hedge_share;
  options.hedge_floor = config_.hedge_floor.value_or(options.hedge_floor);
  return options;
}

BatchReader::Options TrainingRun::ReaderOptions(LossKind loss) const {
  const absl::StatusOr<ModelName> model = ParseModelName(config_.model);
  return {.input = config_.input,
          .target = config_.target,
          .loss = loss,
          .classes = static_cast<int64_t>(config_.classes),
          .ignore_value = config_.ignore_value,
          .channels_last = config_.channels_last,
          .as_stored = model.ok() && !model->file.empty()};
}

absl::Status TrainingRun::SetUp() {
  if (env_.rank == 0) {
    for (const std::string& path : {config_.json, config_.step_losses,
                                    config_.checkpoint, config_.save_weights}) {
      if (!path.empty()) MR_RETURN_IF_ERROR(CheckWritable(path));
    }
  }
  for (const std::string& folder : {config_.profile, config_.audit_dir}) {
    if (!folder.empty()) MR_RETURN_IF_ERROR(MakeFolders(folder));
  }
  // Spinning threads of several ranks on the same cores ruin each other's
  // steps. Who sets OMP_NUM_THREADS has decided already.
  if (!GetEnvironmentVariable("OMP_NUM_THREADS").has_value()) {
    at::set_num_threads(static_cast<int>(
        std::max(1u, AvailableCpus() / env_.local_world_size)));
  }
  try {
    MR_ASSIGN_OR_RETURN(device_, ChooseDevice(config_, env_));
  } catch (const std::exception& error) {
    return FromTorch(error, "choosing the device");
  }
  if (config_.precision == "float16" && device_.is_cpu() && env_.rank == 0) {
    MR_LOG(WARNING) << "--precision=float16 on the CPU is right but slow: "
                       "libtorch has no fast convolutions for it; "
                       "--precision=bfloat16 has them";
  }
  MR_ASSIGN_OR_RETURN(const ModelName model, ParseModelName(config_.model));
  MR_ASSIGN_OR_RETURN(model_identity_, UsageError(IdentityOf(model)));
  MR_ASSIGN_OR_RETURN(resume_, FindResumePoint(config_, model_identity_));
  position_ = resume_.info.position;
  steps_ = resume_.info.steps;
  MR_RETURN_IF_ERROR(OpenData());
  MR_RETURN_IF_ERROR(CheckEvaluation());
  const absl::Duration timeout = config_.rank_timeout.value_or(kRankTimeout);
  MR_ASSIGN_OR_RETURN(
      ranks_, Communicator::Join(
                  env_, {.device = device_,
                         .timeout = timeout,
                         // A rank that waits for its data is not gone.
                         .call_timeout = std::max(
                             timeout, config_.data_timeout + kDataMargin)}));
  MR_RETURN_IF_ERROR(StartAudit());
  MR_RETURN_IF_ERROR(StartLosses());
  MR_RETURN_IF_ERROR(StartMonitor());
  MR_RETURN_IF_ERROR(MakeModelAndOptimizer());
  SayPipelines();
  return absl::OkStatus();
}

absl::Status TrainingRun::StartLosses() {
  // Rank 0 alone may have been given the flag; the others help to sum.
  torch::Tensor wanted = torch::zeros({1}, torch::kInt64);
  std::unique_ptr<StepLosses> file;
  if (env_.rank == 0 && !config_.step_losses.empty()) {
    file = std::make_unique<StepLosses>(
        config_.step_losses,
        resume_.file.empty() ? std::nullopt : std::make_optional(position_));
    wanted.fill_(1);
  }
  losses_ = std::make_unique<EpochLosses>(std::move(file));
  MR_RETURN_IF_ERROR(ranks_->Sum(wanted));
  gathers_losses_ = wanted.data_ptr<int64_t>()[0] != 0;
  return absl::OkStatus();
}

absl::Status TrainingRun::StartMonitor() {
  ProfiledSteps profiled;
  if (config_.profile_steps.has_value()) {
    MR_ASSIGN_OR_RETURN(profiled, ParseProfileSteps(*config_.profile_steps));
  }
  MR_ASSIGN_OR_RETURN(
      monitor_, RunMonitor::Make({.rank = env_.rank,
                                  .ranks_here = env_.local_world_size,
                                  .device = device_,
                                  .tensorboard = config_.tensorboard,
                                  .log_every = config_.log_every,
                                  .steps_before = steps_,
                                  .profile = config_.profile,
                                  .profile_first = profiled.first,
                                  .profile_last = profiled.last},
                                 progress_, [this] {
                                   return RunMonitor::Counters{
                                       .loader = loader_->stats(),
                                       .allreduce_seconds =
                                           ranks_->stats().allreduce_seconds};
                                 }));
  return absl::OkStatus();
}

// The ranks of a start share a number: rank 0's clock.
absl::Status TrainingRun::StartAudit() {
  if (audit_file_.empty()) return absl::OkStatus();
  torch::Tensor attempt = torch::zeros({1}, torch::kInt64);
  if (env_.rank == 0) attempt.fill_(absl::ToUnixMicros(absl::Now()));
  MR_RETURN_IF_ERROR(ranks_->Sum(attempt));
  audit_attempt_ = static_cast<uint64_t>(attempt.data_ptr<int64_t>()[0]);
  absl::Status started = loader_->StartAudit(audit_attempt_);
  if (started.ok()) {
    started = CheckAuditStart(audit_file_, config_.resume, resume_.file);
  }
  return Agree(std::move(started));
}

absl::Status TrainingRun::OpenData() {
  MR_ASSIGN_OR_RETURN(
      specs_,
      MakeSpecs(
          config_,
          [this](const std::string& dataset) -> absl::StatusOr<DatasetInfo> {
            auto info =
                DescribeDataset(config_.endpoint, dataset, config_.timeout);
            if (!info.ok()) return OfNames(info.status());
            return info;
          }));
  bad_samples_ = std::make_unique<BadSampleReport>(
      BadSampleReport::Options{.endpoint = config_.endpoint, .rank = env_.rank},
      specs_);
  DataLoader::Options options = LoaderOptions(specs_.train);
  // A job that is started again after its end, or in its last evaluation, is
  // judged, and is not an error.
  done_ = position_.epoch >= config_.epochs;
  if (done_ && config_.resume != "auto") {
    return absl::InvalidArgumentError(
        absl::StrCat(resume_.file, " has trained ", position_.epoch,
                     " epochs already; raise --epochs to train more"));
  }
  options.start = position_;
  options.epochs = done_ ? 1 : config_.epochs - position_.epoch;
  options.replay_batches = config_.replay_batches;
  options.expected_plan_hash = resume_.info.plan_hash;
  options.expected_fingerprint = resume_.info.fingerprint;
  if (!config_.audit_dir.empty() && !done_) {
    audit_file_ =
        absl::StrFormat("%s/rank-%05d.mraudit", config_.audit_dir, env_.rank);
    options.audit_file = audit_file_;
  }
  absl::StatusOr<std::unique_ptr<DataLoader>> opened =
      DataLoader::Open(options);
  if (!opened.ok()) {
    HostLoaderOptions host;
    host.endpoint = config_.endpoint;
    host.spec = specs_.train;
    host.rank = env_.rank;
    host.world_size = env_.world_size;
    host.open_timeout = config_.timeout;
    return OfNames(NameChangedFlags(
        WithPresetAdvice(opened.status(), config_, specs_), resume_, host));
  }
  loader_ = *std::move(opened);
  const OpenResponse& plan = loader_->plan();
  MR_ASSIGN_OR_RETURN(const LossName loss, ParseLossName(config_.loss));
  MR_ASSIGN_OR_RETURN(BatchReader reader,
                      BatchReader::Make(plan, ReaderOptions(loss.kind)));
  reader_ = std::make_unique<BatchReader>(std::move(reader));
  if (!resume_.file.empty() && resume_.info.classes != reader_->classes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        resume_.file, " is of a model for ",
        CountText(static_cast<uint64_t>(resume_.info.classes), "class",
                  "classes"),
        ", and the data now have ", reader_->classes(),
        " (--classes, --target): give the flags that the checkpoint was "
        "written with"));
  }
  summary_.plan_hash = absl::BytesToHexString(plan.plan_hash());
  summary_.fingerprint = plan.fingerprint();
  summary_.endpoint = config_.endpoint;
  summary_.replay_batches = config_.replay_batches;
  summary_.pipeline = plan.resolved_spec().ShortDebugString();
  stop_.OnSignal([loader = loader_.get()] { loader->Close(); });
  return absl::OkStatus();
}

absl::Status TrainingRun::CheckEvaluation() {
  if (!specs_.eval.has_value()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const LossName loss, ParseLossName(config_.loss));
  absl::StatusOr<std::unique_ptr<Evaluation>> made =
      Evaluation::Make({.dataset = specs_.eval_name,
                        .loader = LoaderOptions(*specs_.eval),
                        .reader = ReaderOptions(loss.kind),
                        .precision = precision()},
                       config_.dataset, *reader_);
  if (!made.ok()) {
    const absl::Status error = OfNames(made.status());
    return WithWords(
        error, absl::StrCat("evaluation by ", specs_.eval_from, ": "),
        absl::IsInvalidArgument(error) || IsUsageError(error)
            ? "; --eval_preset=NAME or --eval_pipeline=FILE give the "
              "evaluation another pipeline, for --preset and --pipeline are of "
              "training alone"
            : "");
  }
  evaluation_ = *std::move(made);
  return absl::OkStatus();
}

void TrainingRun::SayPipelines() {
  const InputForm& input = reader_->form_of_input();
  progress_.Line(
      absl::StrCat("learns ", reader_->target(),
                   reader_->classes() > 0
                       ? absl::StrCat(" (", reader_->classes(), " classes)")
                       : "",
                   " from ", reader_->input(), ", ",
                   input.type == torch::kLong ? "int64" : "float32", " [",
                   absl::StrJoin(input.sizes, ", "), "] a sample"));
  if (evaluation_ == nullptr) {
    progress_.Line(absl::StrCat("pipeline: ", specs_.train_from));
    return;
  }
  const std::string difference = DifferenceOfPipelines(
      loader_->plan().resolved_spec(), evaluation_->pipeline());
  progress_.Line(absl::StrCat(
      "pipelines: training by ", specs_.train_from, ", evaluation by ",
      specs_.eval_from, "; ",
      difference.empty() ? "they make the same of a sample"
                         : absl::StrCat("they differ in ", difference,
                                        " (--eval_preset or --eval_pipeline "
                                        "set the evaluation's)")));
}

absl::Status TrainingRun::MakeModelAndOptimizer() {
  try {
    MR_ASSIGN_OR_RETURN(
        Learner learner,
        MakeLearner(config_, *reader_,
                    evaluation_ == nullptr ? nullptr : &evaluation_->reader(),
                    device_));
    model_ = std::move(learner.model);
    loss_ = std::move(learner.loss);
    const std::vector<torch::Tensor> trained = TrainableParameters(*model_);
    const OpenResponse& plan = loader_->plan();
    const BatchGroups groups(plan.steps_per_epoch(), config_.accumulate);
    auto updater = std::make_unique<Updater>(UpdaterOptions(config_, groups),
                                             trained, device_);
    if (!resume_.file.empty()) {
      const NamedParts state = updater->State();
      MR_RETURN_IF_ERROR(
          UsageError(RestoreCheckpoint(resume_.file, *model_, state)));
      for (const auto& [part, tensors] : state) {
        if (resume_.Holds(part)) continue;
        progress_.Line(
            absl::StrCat(resume_.file, " has no ", part, ": it starts anew"));
      }
    }
    MR_RETURN_IF_ERROR(ranks_->Broadcast(model_->parameters()));
    MR_RETURN_IF_ERROR(Verify("at the start"));
    MR_RETURN_IF_ERROR(ranks_->AverageGradientsOf(trained));
    updater_ = std::move(updater);
    step_ = std::make_unique<TrainingStep>(
        TrainingStep::Parts{.model = *model_,
                            .loss = *loss_,
                            .updater = *updater_,
                            .ranks = *ranks_,
                            .reader = *reader_,
                            .device = device_,
                            .timer = monitor_->timer()},
        TrainingStep::Options{.groups = groups,
                              .batch_size = plan.resolved_spec().batch_size(),
                              .precision = precision(),
                              .label_smoothing = config_.label_smoothing,
                              .seed = config_.seed.value_or(0)});
  } catch (const std::exception& error) {
    return FromTorch(error, "making the model");
  }
  const OpenResponse& plan = loader_->plan();
  summary_.model = config_.model;
  summary_.dataset = config_.dataset;
  summary_.device = device_.str();
  summary_.flags = config_.flags;
  summary_.world_size = env_.world_size;
  summary_.batch_size = plan.resolved_spec().batch_size();
  summary_.samples_per_epoch = plan.samples_per_epoch();
  summary_.parameters = static_cast<uint64_t>(CountParameters(*model_));
  progress_.Line(absl::StrFormat(
      "%s with %d parameters on %d rank%s (%s, %d threads each): %d samples, "
      "%d steps of %d an epoch",
      config_.model, summary_.parameters, env_.world_size,
      env_.world_size == 1 ? "" : "s", device_.str(), at::get_num_threads(),
      plan.samples_per_epoch(), plan.steps_per_epoch(), summary_.batch_size));
  return absl::OkStatus();
}

absl::Status TrainingRun::Verify(absl::string_view when) {
  MR_RETURN_IF_ERROR(ranks_->Broadcast(Buffers()));
  return VerifyReplicas(
      *model_,
      {{"the epoch to go on in", static_cast<int64_t>(position_.epoch)},
       {"the step to go on at", static_cast<int64_t>(position_.step)},
       {"the steps trained", static_cast<int64_t>(steps_)}},
      *ranks_, when);
}

std::vector<torch::Tensor> TrainingRun::Buffers() const {
  return model_->buffers();
}

absl::Status TrainingRun::Stopped() const {
  if (stop_.signal() == 0) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat("stopped by signal ", stop_.signal(),
                                           " before ", At(position_)));
}

absl::Status TrainingRun::Agree(absl::Status mine, bool* together) {
  return millrace::Agree(std::move(mine), *ranks_, At(position_), together);
}

absl::Status TrainingRun::KeepLosses() {
  if (!losses_->has_file() || step_ == nullptr || env_.world_size > 1) {
    return absl::OkStatus();
  }
  try {
    return losses_->Gather(*step_);
  } catch (const std::exception& error) {
    return FromTorch(error, "fetching the losses");
  }
}

absl::Status TrainingRun::WeightsAreKnown() const {
  std::string why = lost_weights_;
  if (updater_ != nullptr && updater_->interrupted()) {
    why = absl::StrCat("the step at ", At(position_),
                       " failed while it changed the weights");
  }
  if (why.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      why,
      ": the weights belong to no place in the data, and no checkpoint of "
      "them is written; the last one that was written is as it was"));
}

absl::Status TrainingRun::TrainEpoch(uint64_t epoch) {
  const uint64_t steps = loader_->plan().steps_per_epoch();
  const uint64_t first = position_.step;
  step_->BeginEpoch(epoch, steps);
  losses_->Begin(epoch, first, steps);
  monitor_->BeginEpoch({.epoch = epoch,
                        .epochs = config_.epochs,
                        .first = first,
                        .steps = steps});
  uint64_t checked = first;
  uint64_t local_valid = 0;
  bool last = false;
  for (uint64_t step = first; step < steps && !last; ++step) {
    monitor_->BeginStep();
    monitor_->timer().Enter(StepPart::kData);
    absl::StatusOr<Batch> batch = loader_->Next();
    if (batch.ok()) ++batches_;
    monitor_->timer().Enter(StepPart::kRanks);
    // A stop also ends Next().
    absl::Status can_go_on = Stopped();
    if (can_go_on.ok()) {
      can_go_on =
          WithBadSampleAdvice(batch.status(), specs_.train, "--pipeline");
    }
    bool together = false;
    can_go_on = Agree(std::move(can_go_on), &together);
    if (!can_go_on.ok()) {
      // All ranks end here, and can still sum.
      if (together && gathers_losses_) LogError(losses_->Gather(*step_));
      return can_go_on;
    }
    MR_CHECK(batch->position == (Position{epoch, step}))
        << "a batch out of turn: " << At(batch->position);
    local_valid += batch->local_valid;
    MR_ASSIGN_OR_RETURN(const bool updated, step_->Run(*batch));
    monitor_->EndStep(batch->global_valid);
    losses_->Add(batch->global_valid);
    if (updated) {
      ++steps_;
      ++run_steps_;
      // Before the losses are looked at: the weights have taken this step.
      position_ =
          step + 1 < steps ? Position{epoch, step + 1} : Position{epoch + 1, 0};
    }
    last = updated && config_.max_steps > 0 && run_steps_ >= config_.max_steps;
    if (!device_.is_cpu() &&
        (step + 1 - checked >= kLossCheckSteps || step + 1 == steps || last)) {
      MR_RETURN_IF_ERROR(step_->CheckLosses(checked, step + 1));
      checked = step + 1;
    }
    const bool checkpoint = updated && config_.checkpoint_every > 0 &&
                            step + 1 < steps &&
                            steps_ % config_.checkpoint_every == 0;
    // Before a checkpoint: a run that goes on from there has all losses.
    if (gathers_losses_ &&
        (checkpoint || losses_->pending() >= kLossWriteSteps)) {
      MR_RETURN_IF_ERROR(losses_->Gather(*step_));
    }
    // Others than rank 0 do nothing there, and wait in the next step. That a
    // disk is full for a while need not end the run.
    if (checkpoint) {
      monitor_->LeaveOut([this] { LogError(WriteCheckpointHere()); });
    }
    if (monitor_->WantsLook()) {
      monitor_->Look({.axis = steps_,
                      .loss = step_->Loss(step, batch->global_valid),
                      .learning_rate = step_->LearningRate(step)});
    }
  }
  const auto [times, where] = monitor_->EndEpoch();
  const double samples = static_cast<double>(times.samples);

  MR_RETURN_IF_ERROR(losses_->Gather(*step_));
  summary_.samples += times.samples;
  summary_.epoch_seconds.push_back(times.seconds);
  summary_.times.Add(times);
  summary_.epoch_times.push_back(times);
  summary_.loss.push_back(losses_->total() / samples);
  monitor_->Report(steps_, {{"Loss/train_epoch", summary_.loss.back()},
                            {"Train/epoch_seconds", times.seconds}});
  progress_.Line(absl::StrFormat(
      "epoch %d/%d: loss %.4f, %.2f s, %.0f samples/s, waiting %.1f %%",
      epoch + 1, config_.epochs, summary_.loss.back(), times.seconds,
      samples / times.seconds, 100 * times.share(times.data_seconds)));
  if (const GradScaler* scaler = updater_->scaler(); scaler != nullptr) {
    progress_.Line(absl::StrFormat("  loss scale %g, %d steps skipped so far",
                                   scaler->scale(), scaler->skipped()));
  }
  MR_RETURN_IF_ERROR(
      bad_samples_->EndEpoch(times.samples, local_valid, *ranks_, progress_));
  summary_.where_the_time_went.push_back(where);
  progress_.Line(absl::StrCat("  ", where));
  progress_.Line(absl::StrCat("  ", PartsText(times)));
  // Rank 0 says it of itself; others only when they were held up.
  if (env_.rank != 0 && times.share(times.data_seconds) >= kWorthSaying) {
    MR_LOG(INFO) << "rank " << env_.rank << ", epoch " << epoch + 1 << ": "
                 << where;
  }
  return absl::OkStatus();
}

absl::Status TrainingRun::WithAverage(
    const std::function<absl::Status()>& work) {
  AveragedWeights* const average = updater_->average();
  if (average == nullptr) return work();
  absl::Status done;
  try {
    average->Swap();
    try {
      done = work();
    } catch (const std::exception& error) {
      done = FromTorch(error, "using the averaged weights");
    }
    average->Swap();
    return done;
  } catch (const std::exception& error) {
    lost_weights_ = "exchanging the weights and their average failed";
    done.Update(FromTorch(error, "exchanging weights and their average"));
    return done;
  }
}

absl::Status TrainingRun::Evaluate() {
  // The average is what is judged; training goes on with the weights.
  return WithAverage([this] { return EvaluateModel(); });
}

absl::Status TrainingRun::EvaluateModel() {
  const absl::StatusOr<Evaluation::Result> result = evaluation_->Run(
      *model_, *loss_, *ranks_, device_,
      {.stopped = [this] { return Stopped(); },
       .open_loader =
           [this](DataLoader* evaluation) {
             stop_.OnSignal([training = loader_.get(), evaluation] {
               training->Close();
               if (evaluation != nullptr) evaluation->Close();
             });
           },
       .place = At(position_)});
  if (!result.ok()) {
    return WithBadSampleAdvice(result.status(), *specs_.eval,
                               "--eval_pipeline");
  }
  AddTo(summary_, *result);
  bad_samples_->AddEvaluation(result->empty_rows);
  monitor_->Report(steps_, EvaluationScalars(*result));
  progress_.Line(EvaluationLine(*result, specs_.eval_name));
  return absl::OkStatus();
}

absl::Status TrainingRun::Train() {
  model_->train();
  if (done_) {
    progress_.Line(absl::StrCat(resume_.file, " has trained all ",
                                position_.epoch,
                                " epochs: nothing is left to train"));
    return evaluation_ == nullptr ? absl::OkStatus() : Evaluate();
  }
  while (position_.epoch < config_.epochs) {
    const uint64_t epoch = position_.epoch;
    MR_RETURN_IF_ERROR(TrainEpoch(epoch));
    // Before the checkpoint, which is of a model that all ranks hold.
    MR_RETURN_IF_ERROR(Verify(absl::StrCat("after epoch ", epoch + 1)));
    // A disk that is full for a while need not end the run: at its end the
    // write is tried again, and there an error counts.
    LogError(WriteCheckpointHere());
    LogError(SaveWeightsHere());
    if (evaluation_ != nullptr) MR_RETURN_IF_ERROR(Evaluate());
    if (config_.max_steps > 0 && run_steps_ >= config_.max_steps) break;
  }
  return absl::OkStatus();
}

absl::Status TrainingRun::WriteCheckpointHere() {
  if (config_.checkpoint.empty() || env_.rank != 0) return absl::OkStatus();
  if (checkpointed_ == steps_) return absl::OkStatus();
  MR_RETURN_IF_ERROR(WeightsAreKnown());
  // This run has learnt nothing: an older file is worth more.
  if (run_steps_ == 0 && access(config_.checkpoint.c_str(), F_OK) == 0) {
    return absl::OkStatus();
  }
  // A group of batches that was cut off is trained on again.
  try {
    step_->DropGroup();
  } catch (const std::exception& error) {
    return FromTorch(error, "dropping an incomplete group of batches");
  }
  const OpenResponse& plan = loader_->plan();
  CheckpointInfo info;
  info.model = model_identity_;
  info.optimizer = config_.optimizer;
  info.classes = reader_->classes();
  info.accumulate = config_.accumulate;
  info.position = position_;
  info.steps = steps_;
  info.plan_hash = plan.plan_hash();
  info.fingerprint = plan.fingerprint();
  info.pipeline = plan.resolved_spec();
  MR_RETURN_IF_ERROR(
      WriteCheckpoint(config_.checkpoint, info, *model_, updater_->State()));
  checkpointed_ = steps_;
  progress_.Line(absl::StrCat("checkpoint before ", At(position_), ": ",
                              config_.checkpoint));
  return absl::OkStatus();
}

absl::Status TrainingRun::KeepFailedBatch(const absl::Status& error) const {
  if (step_ == nullptr || !step_->not_finite().has_value()) return error;
  // That place's own batch was not trained on.
  if (config_.replay_batches > 0) return error;
  HostLoaderOptions options;
  options.endpoint = config_.endpoint;
  options.spec = loader_->plan().resolved_spec();
  options.rank = env_.rank;
  options.world_size = env_.world_size;
  options.start = *step_->not_finite();
  options.open_timeout = config_.timeout;
  options.next_timeout = std::min(config_.data_timeout, kKeepTime);
  options.expected_plan_hash = loader_->plan().plan_hash();
  options.expected_fingerprint = loader_->plan().fingerprint();
  return WithWords(
      error, "",
      absl::StrCat("; ", millrace::KeepFailedBatch(options, config_)));
}

absl::Status TrainingRun::SaveWeightsHere() {
  if (config_.save_weights.empty() || env_.rank != 0) return absl::OkStatus();
  // The average is what is judged, and what is given away.
  return WithAverage(
      [this] { return SaveWeights(config_.save_weights, WeightsOf(*model_)); });
}

absl::StatusOr<TrainSummary> TrainingRun::Finish() {
  loader_->Close();
  MR_RETURN_IF_ERROR(Verify("at the end"));
  // They may lie on different disks: one that is full does not cost the others.
  absl::Status kept = WriteCheckpointHere();
  kept.Update(SaveWeightsHere());
  summary_.steps = run_steps_;
  if (const GradScaler* scaler = updater_->scaler(); scaler != nullptr) {
    summary_.loss_scale = scaler->scale();
    summary_.skipped_steps = scaler->skipped();
  }
  summary_.allreduce_bytes = ranks_->stats().bytes;
  const RunTimes& times = summary_.times;
  summary_.samples_per_second = times.share(static_cast<double>(times.samples));
  summary_.stall_share = times.share(times.data_seconds);
  const int64_t world = env_.world_size;
  torch::Tensor shares = torch::zeros({2 * world}, torch::kDouble);
  shares[env_.rank] = summary_.stall_share;
  shares[world + env_.rank] = times.share(times.allreduce_seconds);
  MR_RETURN_IF_ERROR(ranks_->Sum(shares));
  const auto* share = shares.data_ptr<double>();
  summary_.rank_stall_shares.assign(share, share + world);
  summary_.rank_allreduce_shares.assign(share + world, share + 2 * world);
  kept.Update(losses_->Finish());
  if (!audit_file_.empty()) {
    kept.Update(CheckAuditIsComplete(audit_file_, audit_attempt_, batches_));
  }
  summary_.bad_samples = bad_samples_->Finish();
  if (env_.rank == 0 && !config_.json.empty()) {
    kept.Update(WriteFileAtomically(config_.json, ToJson(summary_)));
  }
  kept.Update(monitor_->profile_status());
  MR_RETURN_IF_ERROR(kept);
  // Last: what can fail here must not cost what the run has found.
  MR_RETURN_IF_ERROR(ranks_->Leave());
  return summary_;
}

}  // namespace

absl::StatusOr<TrainSummary> RunTraining(const TrainerConfig& config,
                                         const RankEnv& env, StopSignal& stop) {
  MR_RETURN_IF_ERROR(config.Validate());
  TrainingRun run(config, env, stop);
  if (absl::Status status = run.SetUp(); !status.ok()) {
    run.Fail(status);
    // Flags, or files that they name, that do not fit together or the data.
    return absl::IsInvalidArgument(status) ? UsageError(status) : status;
  }
  // What went wrong on a device is often known only where it is waited for.
  absl::Status status;
  try {
    status = run.Train();
  } catch (const std::exception& error) {
    status = FromTorch(error, "training");
  }
  run.EndMonitor();
  if (!status.ok()) {
    status = run.KeepFailedBatch(status);
    run.Fail(status);
    LogError(run.KeepLosses());
    // The error that ended the run matters more than one of the checkpoint.
    // Where the ranks differ, the last one before may be the only good one.
    if (!absl::IsAborted(status)) LogError(run.WriteCheckpointHere());
    return status;
  }
  absl::StatusOr<TrainSummary> summary = absl::UnknownError("");
  try {
    summary = run.Finish();
  } catch (const std::exception& error) {
    summary = FromTorch(error, "ending the run");
  }
  if (!summary.ok()) run.Fail(summary.status());
  return summary;
}

}  // namespace millrace
