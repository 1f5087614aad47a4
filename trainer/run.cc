#include "trainer/run.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/cuda.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/loader.h"
#include "client/receive/describe.h"
#include "common/cgroup.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "trainer/audit_complete.h"
#include "trainer/bad_sample_watch.h"
#include "trainer/batch_reader.h"
#include "trainer/checkpoint.h"
#include "trainer/ddp/agree.h"
#include "trainer/ddp/communicator.h"
#include "trainer/ddp/replicas.h"
#include "trainer/error_text.h"
#include "trainer/evaluation.h"
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

// Damaged samples that are named when they are met; the summary has all.
constexpr size_t kNamedAtOnce = 10;
// And in a line.
constexpr size_t kNamedInLine = 3;
// For the servers to say which samples are damaged.
constexpr absl::Duration kStatusTime = absl::Seconds(1);

void LogError(const absl::Status& status) {
  if (!status.ok()) MR_LOG(ERROR) << ErrorText(status);
}

// What all servers of the endpoint say; nothing of those that do not answer.
std::vector<BadSample> AskForBadSamples(const std::string& endpoint) {
  std::vector<BadSample> samples;
  const auto servers = GetServerStatus(endpoint, kStatusTime);
  if (!servers.ok()) return samples;
  for (const ServerStatus& server : *servers) {
    if (!server.status.ok()) continue;
    samples.insert(samples.end(), server.status->recent_bad_samples().begin(),
                   server.status->recent_bad_samples().end());
  }
  return samples;
}

// What the policy does with a damaged sample, as the end of a sentence.
absl::string_view FateOf(BadSamplePolicy::Action action) {
  return action == BadSamplePolicy::ZERO
             ? "bad_samples ZERO leaves its row empty, out of loss, gradient "
               "and accuracy"
             : "bad_samples SUBSTITUTE puts another sample in its place";
}

// "photos shard a.mdb row 17, ... and 4 more"
std::string PlacesOf(const std::vector<BadSample>& samples) {
  std::string places;
  for (size_t i = 0; i < std::min(samples.size(), kNamedInLine); ++i) {
    absl::StrAppend(&places, i > 0 ? ", " : "", PlaceOf(samples[i]));
  }
  if (samples.size() > kNamedInLine) {
    absl::StrAppend(&places, " and ", samples.size() - kNamedInLine, " more");
  }
  return places;
}

absl::StatusOr<torch::Device> ChooseDevice(const TrainerConfig& config,
                                           const RankEnv& env) {
  if (config.device == "cpu") return torch::Device(torch::kCPU);
  const auto gpus = static_cast<uint32_t>(torch::cuda::device_count());
  if (gpus == 0) {
    if (config.device == "auto") return torch::Device(torch::kCPU);
    return absl::FailedPreconditionError(
        "--device=cuda, but this process sees no CUDA device; look at the "
        "driver, at CUDA_VISIBLE_DEVICES and at MILLRACE_TORCH_LIB");
  }
  MR_ASSIGN_OR_RETURN(const uint32_t gpu, GpuOf(env, gpus));
  const torch::Device device(torch::kCUDA, static_cast<c10::DeviceIndex>(gpu));
  // What is made without naming a device is made on this one, by us and by
  // NCCL.
  c10::impl::VirtualGuardImpl(torch::kCUDA).setDevice(device);
  return device;
}

bool Holds(const CheckpointInfo& info, absl::string_view part) {
  return std::find(info.parts.begin(), info.parts.end(), part) !=
         info.parts.end();
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
  void WatchBadSamples();
  // What becomes of damaged samples in training.
  BadSamplePolicy::Action policy() const {
    return loader_->plan().resolved_spec().bad_samples().action();
  }
  // Of the epoch that ends, of whose rows this rank had `local_valid` valid
  // ones: counts those that ZERO left empty, and says a line. A collective call
  // with that policy.
  absl::Status ReportBadSamples(uint64_t samples, uint64_t local_valid);
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
  // Sums the losses of the epoch's steps up to here that are not summed yet,
  // and writes them where they are wanted. A collective call.
  absl::Status GatherLosses();
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

  std::string resume_;  // file, or empty
  RunSpecs specs_;
  torch::Device device_ = torch::kCPU;
  CheckpointInfo resumed_;
  // Rank 0's, under another policy than FAIL.
  std::unique_ptr<BadSampleWatch> bad_samples_;
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
  // Of the epoch that is trained.
  uint64_t epoch_ = 0;
  std::vector<uint64_t> global_valid_;  // of each step
  uint64_t trained_ = 0;                // steps that were trained end here
  uint64_t gathered_ = 0;  // and those whose losses are in total_loss_ here
  double total_loss_ = 0;
  // All ranks agree on it: losses are gathered within an epoch, too.
  bool gathers_losses_ = false;
  std::unique_ptr<StepLosses> step_losses_;  // null: not wanted, or not rank 0
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
  options.open_timeout = config_.timeout;
  options.next_timeout = config_.data_timeout;
  options.step_timeout = config_.step_timeout;
  options.hedge_share = config_.hedge_share;
  options.hedge_floor = config_.hedge_floor;
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
  MR_ASSIGN_OR_RETURN(model_identity_, IdentityOf(model));
  resume_ = config_.resume;
  if (resume_ == "auto") {
    resume_ = config_.checkpoint;
    if (absl::IsNotFound(CheckReadable(resume_))) resume_.clear();
  }
  if (!resume_.empty()) {
    MR_ASSIGN_OR_RETURN(resumed_, ReadCheckpointInfo(resume_));
    if (resumed_.model != model_identity_ ||
        resumed_.optimizer != config_.optimizer) {
      return absl::InvalidArgumentError(absl::StrCat(
          resume_, " holds --model=", resumed_.model,
          " --optimizer=", resumed_.optimizer,
          ", not --model=", model_identity_, " --optimizer=", config_.optimizer,
          model.file.empty() ? ""
                             : " (a TorchScript file goes by a hash of its "
                               "content)"));
    }
    if (config_.ema == 0 && Holds(resumed_, "average")) {
      return absl::InvalidArgumentError(absl::StrCat(
          resume_,
          " holds averaged weights, which --ema would go on with; give --ema"));
    }
    if (resumed_.position.step % config_.accumulate != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          resume_, " was written after ", resumed_.position.step,
          " batches of an epoch, which --accumulate=", config_.accumulate,
          " does not divide; go on with --accumulate=", resumed_.accumulate));
    }
    position_ = resumed_.position;
    steps_ = resumed_.steps;
  }
  MR_RETURN_IF_ERROR(OpenData());
  MR_RETURN_IF_ERROR(CheckEvaluation());
  MR_ASSIGN_OR_RETURN(
      ranks_,
      Communicator::Join(env_, {.device = device_,
                                .timeout = config_.rank_timeout,
                                // A rank that waits for its data is not gone.
                                .call_timeout = std::max(
                                    config_.rank_timeout,
                                    config_.data_timeout + kDataMargin)}));
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
  if (env_.rank == 0 && !config_.step_losses.empty()) {
    step_losses_ = std::make_unique<StepLosses>(
        config_.step_losses,
        resume_.empty() ? std::nullopt : std::make_optional(position_));
    wanted.fill_(1);
  }
  MR_RETURN_IF_ERROR(ranks_->Sum(wanted));
  gathers_losses_ = wanted.data_ptr<int64_t>()[0] != 0;
  return absl::OkStatus();
}

absl::Status TrainingRun::StartMonitor() {
  MR_ASSIGN_OR_RETURN(const ProfiledSteps profiled,
                      ParseProfileSteps(config_.profile_steps));
  MR_ASSIGN_OR_RETURN(
      monitor_, RunMonitor::Make({.rank = env_.rank,
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
  return Agree(loader_->StartAudit(audit_attempt_));
}

absl::Status TrainingRun::OpenData() {
  MR_ASSIGN_OR_RETURN(
      specs_, MakeSpecs(config_, [this](const std::string& dataset) {
        return DescribeDataset(config_.endpoint, dataset, config_.timeout);
      }));
  WatchBadSamples();
  DataLoader::Options options = LoaderOptions(specs_.train);
  // A job that is started again after its end, or in its last evaluation, is
  // judged, and is not an error.
  done_ = position_.epoch >= config_.epochs;
  if (done_ && config_.resume != "auto") {
    return absl::InvalidArgumentError(
        absl::StrCat(resume_, " has trained ", position_.epoch,
                     " epochs already; raise --epochs to train more"));
  }
  options.start = position_;
  options.epochs = done_ ? 1 : config_.epochs - position_.epoch;
  options.replay_batches = config_.replay_batches;
  options.expected_plan_hash = resumed_.plan_hash;
  options.expected_fingerprint = resumed_.fingerprint;
  if (!config_.audit_dir.empty() && !done_) {
    audit_file_ =
        absl::StrFormat("%s/rank-%05d.mraudit", config_.audit_dir, env_.rank);
    options.audit_file = audit_file_;
  }
  MR_ASSIGN_OR_RETURN(loader_, DataLoader::Open(options));
  const OpenResponse& plan = loader_->plan();
  MR_ASSIGN_OR_RETURN(const LossName loss, ParseLossName(config_.loss));
  MR_ASSIGN_OR_RETURN(BatchReader reader,
                      BatchReader::Make(plan, ReaderOptions(loss.kind)));
  reader_ = std::make_unique<BatchReader>(std::move(reader));
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
  MR_ASSIGN_OR_RETURN(evaluation_,
                      Evaluation::Make({.dataset = specs_.eval_name,
                                        .loader = LoaderOptions(*specs_.eval),
                                        .reader = ReaderOptions(loss.kind),
                                        .precision = precision()},
                                       config_.dataset, *reader_));
  return absl::OkStatus();
}

void TrainingRun::WatchBadSamples() {
  // No preset has a policy.
  const BadSamplePolicy::Action of_training =
      specs_.train.bad_samples().action();
  std::map<std::string, BadSamplePolicy::Action> policies;
  const auto add = [&policies](const PipelineSpec& spec) {
    if (spec.bad_samples().action() == BadSamplePolicy::FAIL) return;
    for (const Source& source : spec.sources()) {
      policies.emplace(source.dataset(), spec.bad_samples().action());
    }
  };
  summary_.bad_samples.policy = BadSamplePolicy::Action_Name(of_training);
  add(specs_.train);
  if (specs_.eval.has_value()) add(*specs_.eval);
  if (env_.rank != 0 || policies.empty()) return;
  std::set<std::string> datasets;
  for (const auto& [dataset, action] : policies) datasets.insert(dataset);
  bad_samples_ = std::make_unique<BadSampleWatch>(BadSampleWatch::Options{
      .datasets = std::move(datasets),
      .ask = [this] { return AskForBadSamples(config_.endpoint); },
      .say =
          [policies, said = size_t{0}](const BadSample& bad) mutable {
            if (++said > kNamedAtOnce + 1) return;
            if (said > kNamedAtOnce) {
              MR_LOG(WARNING) << "further damaged samples are not named here; "
                                 "`millrace status` and --json list them";
              return;
            }
            MR_LOG(WARNING)
                << "a data server met a damaged sample: " << PlaceOf(bad)
                << " (" << bad.reason() << "); "
                << FateOf(policies.at(bad.dataset()));
          }});
}

absl::Status TrainingRun::ReportBadSamples(uint64_t samples,
                                           uint64_t local_valid) {
  uint64_t empty = 0;
  if (policy() == BadSamplePolicy::ZERO) {
    torch::Tensor valid =
        torch::full({1}, static_cast<int64_t>(local_valid), torch::kInt64);
    MR_RETURN_IF_ERROR(ranks_->Sum(valid));
    empty = samples - static_cast<uint64_t>(valid.data_ptr<int64_t>()[0]);
    summary_.bad_samples.empty_rows.push_back(empty);
  }
  if (bad_samples_ == nullptr) return absl::OkStatus();
  bad_samples_->Look();
  const std::vector<BadSample> met = bad_samples_->found();
  if (empty > 0) {
    progress_.Line(absl::StrCat(
        "  bad samples: ", empty, " of ", samples,
        " rows of this epoch were left empty (bad_samples ZERO)",
        met.empty() ? "" : absl::StrCat("; damaged: ", PlacesOf(met))));
  } else if (policy() == BadSamplePolicy::SUBSTITUTE && !met.empty()) {
    progress_.Line(absl::StrCat(
        "  bad samples: the servers met ", met.size(),
        met.size() == 1 ? " damaged sample" : " damaged samples",
        " so far; others took their places (bad_samples SUBSTITUTE); damaged: ",
        PlacesOf(met)));
  }
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
    if (!resume_.empty()) {
      const NamedParts state = updater->State();
      MR_RETURN_IF_ERROR(RestoreCheckpoint(resume_, *model_, state));
      for (const auto& [part, tensors] : state) {
        if (Holds(resumed_, part)) continue;
        progress_.Line(
            absl::StrCat(resume_, " has no ", part, ": it starts anew"));
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
                              .seed = config_.seed});
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

absl::Status TrainingRun::GatherLosses() {
  if (gathered_ == trained_) return absl::OkStatus();  // on all ranks
  MR_ASSIGN_OR_RETURN(const std::vector<double> sums,
                      step_->SumLosses(gathered_, trained_));
  std::vector<double> means;
  for (uint64_t i = 0; i < sums.size(); ++i) {
    total_loss_ += sums[i];
    means.push_back(sums[i] /
                    static_cast<double>(global_valid_[gathered_ + i]));
  }
  const uint64_t first = std::exchange(gathered_, trained_);
  // What a full disk leaves is written later; at the end the error counts.
  if (step_losses_ != nullptr) {
    LogError(step_losses_->Append(epoch_, first, means));
  }
  return absl::OkStatus();
}

absl::Status TrainingRun::KeepLosses() {
  if (step_losses_ == nullptr || step_ == nullptr || env_.world_size > 1) {
    return absl::OkStatus();
  }
  try {
    return GatherLosses();
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
  epoch_ = epoch;
  global_valid_.assign(steps, 0);
  trained_ = gathered_ = first;
  total_loss_ = 0;
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
    if (can_go_on.ok()) can_go_on = batch.status();
    bool together = false;
    can_go_on = Agree(std::move(can_go_on), &together);
    if (!can_go_on.ok()) {
      // All ranks end here, and can still sum.
      if (together && gathers_losses_) LogError(GatherLosses());
      return can_go_on;
    }
    MR_CHECK(batch->position == (Position{epoch, step}))
        << "a batch out of turn: " << At(batch->position);
    global_valid_[step] = batch->global_valid;
    local_valid += batch->local_valid;
    MR_ASSIGN_OR_RETURN(const bool updated, step_->Run(*batch));
    monitor_->EndStep(batch->global_valid);
    trained_ = step + 1;
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
        (checkpoint || trained_ - gathered_ >= kLossWriteSteps)) {
      MR_RETURN_IF_ERROR(GatherLosses());
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

  MR_RETURN_IF_ERROR(GatherLosses());
  summary_.samples += times.samples;
  summary_.epoch_seconds.push_back(times.seconds);
  summary_.times.Add(times);
  summary_.epoch_times.push_back(times);
  summary_.loss.push_back(total_loss_ / samples);
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
  MR_RETURN_IF_ERROR(ReportBadSamples(times.samples, local_valid));
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
  MR_ASSIGN_OR_RETURN(
      const Evaluation::Result result,
      evaluation_->Run(*model_, *loss_, *ranks_, device_,
                       {.stopped = [this] { return Stopped(); },
                        .open_loader =
                            [this](DataLoader* evaluation) {
                              stop_.OnSignal(
                                  [training = loader_.get(), evaluation] {
                                    training->Close();
                                    if (evaluation != nullptr)
                                      evaluation->Close();
                                  });
                            },
                        .place = At(position_)}));
  summary_.eval_seconds.push_back(result.seconds);
  summary_.eval_accuracy = result.accuracy;
  summary_.eval_top5 = result.top5;
  summary_.eval_mean_iou = result.mean_iou;
  summary_.eval_loss.push_back(result.loss);
  summary_.bad_samples.eval_empty_rows.push_back(result.empty_rows);
  std::vector<Scalar> scalars = {{"Loss/val", result.loss}};
  std::string judged;
  if (result.accuracy.has_value()) {
    scalars.push_back({"Accuracy/val", *result.accuracy});
    judged = absl::StrFormat("accuracy %.4f", *result.accuracy);
  }
  if (result.top5.has_value()) {
    scalars.push_back({"Accuracy/val_top5", *result.top5});
    absl::StrAppendFormat(&judged, " (top-5 %.4f)", *result.top5);
  }
  if (result.mean_iou.has_value()) {
    scalars.push_back({"MeanIoU/val", *result.mean_iou});
    absl::StrAppendFormat(&judged, "%smean IoU %.4f",
                          judged.empty() ? "" : ", ", *result.mean_iou);
  }
  monitor_->Report(steps_, scalars);
  const std::string left_out =
      result.empty_rows == 0
          ? ""
          : absl::StrCat(" (", result.empty_rows,
                         " damaged ones left out by bad_samples ZERO)");
  progress_.Line(
      absl::StrFormat("  evaluation on %s: %s%sloss %.4f, %d samples%s, %.2f s",
                      specs_.eval_name, judged, judged.empty() ? "" : ", ",
                      result.loss, result.samples, left_out, result.seconds));
  return absl::OkStatus();
}

absl::Status TrainingRun::Train() {
  model_->train();
  if (done_) {
    progress_.Line(absl::StrCat(resume_, " has trained all ", position_.epoch,
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
  std::string folder = config_.failed_batch;
  if (folder.empty() && !config_.checkpoint.empty()) {
    folder = config_.checkpoint + ".failed_batch";
  }
  absl::StatusOr<std::string> kept =
      absl::FailedPreconditionError("--failed_batch is not given");
  if (!folder.empty()) kept = SaveFailedBatch(options, folder);
  if (!kept.ok()) {
    kept = absl::StrCat(
        "it is not kept (", kept.status().message(),
        "); see it with: millrace replay --position=", options.start.epoch, ":",
        options.start.step, " --rank=", options.rank,
        " --world=", options.world_size, " --output=DIR",
        config_.train_subset.empty() && config_.eval_subset.empty()
            ? " and the flags of this run, or --run=ITS_AUDIT_LOG"
            : " --run=ITS_AUDIT_LOG (no flag of replay names a subset)");
  }
  return absl::Status(error.code(), absl::StrCat(error.message(), "; ", *kept));
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
  if (step_losses_ != nullptr) kept.Update(step_losses_->Append(0, 0, {}));
  if (!audit_file_.empty()) {
    kept.Update(CheckAuditIsComplete(audit_file_, audit_attempt_, batches_));
  }
  if (bad_samples_ != nullptr) {
    bad_samples_->Look();
    for (const BadSample& bad : bad_samples_->found()) {
      summary_.bad_samples.damaged.push_back(
          {bad.dataset(), bad.shard(), bad.row(), bad.sample(), bad.reason()});
    }
  }
  if (env_.rank == 0 && !config_.json.empty()) {
    kept.Update(WriteFileAtomically(config_.json, ToJson(summary_)));
  }
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
    return status;
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
