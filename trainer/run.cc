#include "trainer/run.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/loader.h"
#include "common/atomic_file.h"
#include "common/cgroup.h"
#include "common/count_text.h"
#include "common/folder.h"
#include "common/logging.h"
#include "common/output_file.h"
#include "common/program/exit_code.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "common/stop_signals.h"
#include "common/usage_error.h"
#include "common/write_target.h"
#include "trainer/audit_checks.h"
#include "trainer/bad_sample_report.h"
#include "trainer/checkpoint.h"
#include "trainer/choose_device.h"
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
#include "trainer/models/model.h"
#include "trainer/models/model_name.h"
#include "trainer/monitoring/run_monitor.h"
#include "trainer/optim/batch_groups.h"
#include "trainer/optim/precision.h"
#include "trainer/optim/updater.h"
#include "trainer/position_text.h"
#include "trainer/progress.h"
#include "trainer/resume.h"
#include "trainer/run_data.h"
#include "trainer/run_keeper.h"
#include "trainer/step_losses.h"
#include "trainer/torch_error.h"
#include "trainer/training_step.h"
#include "trainer/write_failures.h"

namespace millrace::trainer {
namespace {

// Ranks wait for one another this much longer than each waits for data.
constexpr absl::Duration kDataMargin = absl::Seconds(30);
// Time for the servers to send a batch again that is kept for inspection.
constexpr absl::Duration kKeepTime = absl::Seconds(20);
// Min share of an epoch spent waiting for data at which a rank other than 0
// logs the reason.
constexpr double kWorthSaying = 0.05;
// Min seconds of a wait without an answer that a stop may have been sent for.
constexpr double kLongWaitSeconds = 5;
// Steps between two checks of the losses on a device, which has to be
// synchronised for them.
constexpr uint64_t kLossCheckSteps = 50;
// Steps between two writes of the losses of --step_losses, which are summed
// over the ranks.
constexpr uint64_t kLossWriteSteps = 50;
// Time after which a rank that does not answer is missing, without
// --rank_timeout.
constexpr absl::Duration kRankTimeout = absl::Minutes(2);

void LogError(const absl::Status& status) {
  if (!status.ok()) MR_LOG(ERROR) << ErrorText(status);
}

// A write that is repeated later, and whose failure does not end the run.
void LogWrite(const absl::Status& written, WriteFailures& failures) {
  const auto line = failures.LineOf(written, std::chrono::steady_clock::now());
  if (!line.has_value()) return;
  if (written.ok()) {
    MR_LOG(INFO) << *line;
  } else {
    MR_LOG(ERROR) << *line;
  }
}

// Ends the process after a signal, before there is anything to save: nothing is
// trained, and no file is open for writing but the pipe of --json.
void EndBeforeTraining() {
  MR_LOG(ERROR) << "stopped by signal " << StopSignals::signal()
                << " before all ranks had joined: nothing was trained";
  // Not exit(): another thread is blocked in a call, and destructors would wait
  // for it.
  _exit(program::kExitFailed);
}

class TrainingRun {
 public:
  TrainingRun(const TrainerConfig& config, const RankEnv& env,
              StopSignals& stop)
      : config_(config),
        env_(env),
        stop_(stop),
        progress_({.enabled = env.rank == 0,
                   .terminal = isatty(STDOUT_FILENO) == 1,
                   .log_every = config.log_every}) {}
  ~TrainingRun() { stop_.OnSignal(nullptr); }

  absl::Status SetUp();
  absl::Status Train();
  absl::Status WriteCheckpoint() { return keeper_->WriteCheckpoint(place_); }
  // After an error of Train(): saves the batch that caused it, if that is
  // known. Returns the error with advice.
  absl::Status KeepFailedBatch(const absl::Status& error) const;
  // Tells the other ranks, if they have joined.
  void Fail(const absl::Status& why) const {
    if (ranks_ == nullptr) return;
    ranks_->Fail(absl::Status(why.code(), ErrorText(why)));
  }
  // Call after training, successful or not.
  void EndMonitor() { monitor_->End(); }
  // Writes --json of a run that Train() or Finish() has ended with `error`:
  // only whole epochs, and nothing new of other ranks, which may not answer.
  absl::Status WriteSummaryOf(const absl::Status& error);
  // After an error of Train(): writes the losses that are known without the
  // other ranks.
  absl::Status KeepLosses();
  absl::StatusOr<diagnosis::RunSummary> Finish();

 private:
  // The flags replace no file of another kind than their own.
  absl::Status CheckReplaced() const;
  // The files and the folders of the flags do not stand in each other's way.
  absl::Status CheckOutputs() const;
  // Files can be made in the folders of the flags.
  absl::Status CheckFolders() const;
  absl::Status OpenData();
  absl::Status StartLosses();
  absl::Status StartAudit();
  absl::Status StartMonitor();
  absl::Status MakeModelAndOptimizer();

  absl::Status TrainEpoch(uint64_t epoch);
  // After an error of Next() that took `seconds`.
  void NoteFinalWait(const absl::Status& error, double seconds);
  // After an error of TrainEpoch(): counts its time in the summary's total.
  void AddUnfinishedEpoch();
  absl::Status Evaluate();
  absl::Status EvaluateModel();
  // See ddp/replicas.h. Copies rank 0's buffers to all ranks.
  absl::Status Verify(absl::string_view when);
  // See ddp/agree.h. Call before the next step.
  absl::Status Agree(absl::Status mine, bool* together = nullptr);
  // The flag was validated.
  optim::Precision precision() const {
    return *optim::PrecisionByName(config_.precision, device_.type());
  }
  absl::Status Stopped() const;
  // Fills in what rank 0 knows of the run without the other ranks.
  void Summarize();
  absl::Status WriteSummary() const;

  const TrainerConfig& config_;
  const RankEnv& env_;
  StopSignals& stop_;
  Progress progress_;

  ResumePoint resume_;
  torch::Device device_ = torch::kCPU;
  RunData data_;
  std::unique_ptr<ddp::Communicator> ranks_;
  std::string model_identity_;  // IdentityOf() of --model, for checkpoints
  std::shared_ptr<models::Classifier> model_;
  std::unique_ptr<losses::Loss> loss_;
  std::unique_ptr<optim::Updater> updater_;
  std::unique_ptr<TrainingStep> step_;
  std::unique_ptr<RunKeeper> keeper_;
  std::unique_ptr<monitoring::RunMonitor> monitor_;

  uint64_t audit_attempt_ = 0;
  uint64_t batches_ = 0;  // batches that the loader delivered
  // Of --json=PIPE (or a device): opened at the start, where the lack of a
  // reader is an error, and kept open, because the first close ends the reader.
  // Null: --json is a file, or absent, or this is not rank 0.
  std::unique_ptr<AtomicFile> json_pipe_;
  // Between BeginEpoch() and EndEpoch() of the monitor.
  bool in_epoch_ = false;
  double no_answer_before_ = 0;  // the loader's, at the start of the epoch

  RunPlace place_;
  WriteFailures checkpoint_failures_{config_.checkpoint};
  WriteFailures weights_failures_{config_.save_weights};
  std::unique_ptr<EpochLosses> losses_;  // of the current epoch
  // The same on all ranks: losses are also gathered within an epoch.
  bool gathers_losses_ = false;
  diagnosis::RunSummary summary_;
};

absl::Status TrainingRun::CheckOutputs() const {
  return CheckApart(
      {{"--json", config_.json},
       {"--step_losses", config_.step_losses},
       {"--checkpoint", config_.checkpoint},
       {"--save_weights", config_.save_weights}},
      {{"--audit_dir", config_.audit_dir, "rank-", ".mraudit"},
       {"--tensorboard", config_.tensorboard, "events.out.tfevents.", ""},
       {"--profile", config_.profile, "", ".pt.trace.json"},
       {"--failed_batch", config_.failed_batch, "", ""}});
}

absl::Status TrainingRun::CheckFolders() const {
  // Each rank writes into them, perhaps on a machine of its own; TensorBoard's
  // folder has only files of rank 0.
  for (const auto& [flag, path] :
       {std::pair("--audit_dir", &config_.audit_dir),
        std::pair("--profile", &config_.profile),
        std::pair("--failed_batch", &config_.failed_batch),
        std::pair("--tensorboard", &config_.tensorboard)}) {
    const bool mine = env_.rank == 0 || path != &config_.tensorboard;
    if (mine && !path->empty()) MR_RETURN_IF_ERROR(CheckFolder(flag, *path));
  }
  return absl::OkStatus();
}

absl::Status TrainingRun::SetUp() {
  if (env_.rank == 0) {
    MR_RETURN_IF_ERROR(CheckOutputs());
    const NamedFiles outputs = {{"--json", config_.json},
                                {"--step_losses", config_.step_losses},
                                {"--checkpoint", config_.checkpoint},
                                {"--save_weights", config_.save_weights}};
    MR_RETURN_IF_ERROR(CheckDistinct(outputs));
    MR_RETURN_IF_ERROR(CheckReplaced());
    for (const auto& [flag, path] : outputs) {
      if (!path.empty()) MR_RETURN_IF_ERROR(CheckWritable(path));
    }
    // An earlier run's summary is not taken for that of a run that fails before
    // it has one, or is killed. An empty file, as mktemp makes one, is none.
    if (!config_.json.empty() && !IsEmptyFile(config_.json)) {
      MR_RETURN_IF_ERROR(RemoveOldFile(config_.json));
    }
    if (!config_.json.empty() && IsSpecialFile(config_.json)) {
      MR_ASSIGN_OR_RETURN(json_pipe_, AtomicFile::Create(config_.json));
    }
  }
  MR_RETURN_IF_ERROR(CheckFolders());
  // Spinning threads of several ranks on the same cores slow each other down. A
  // value of OMP_NUM_THREADS that the user set stays.
  if (!GetEnvironmentVariable("OMP_NUM_THREADS").has_value()) {
    at::set_num_threads(static_cast<int>(
        std::max(1u, AvailableCpus() / env_.local_world_size)));
  }
  try {
    MR_ASSIGN_OR_RETURN(device_, ChooseDevice(config_.device, env_));
  } catch (const std::exception& error) {
    return FromTorch(error, "choosing the device");
  }
  if (config_.precision == "float16" && device_.is_cpu() && env_.rank == 0) {
    MR_LOG(WARNING) << "--precision=float16 on the CPU is correct but slow, "
                       "because libtorch has no fast convolutions for it; it "
                       "has them for --precision=bfloat16";
  }
  MR_ASSIGN_OR_RETURN(const models::ModelName model,
                      models::ParseModelName(config_.model));
  MR_ASSIGN_OR_RETURN(model_identity_, UsageError(models::IdentityOf(model)));
  MR_ASSIGN_OR_RETURN(resume_, FindResumePoint(config_, model_identity_));
  // The calls from here to Join() wait for servers and for other ranks, which
  // may have ended, and cannot be interrupted.
  stop_.OnSignal(&EndBeforeTraining);
  place_.position = resume_.info.position;
  place_.steps = resume_.info.steps;
  MR_RETURN_IF_ERROR(OpenData());
  const absl::Duration timeout = config_.rank_timeout.value_or(kRankTimeout);
  MR_ASSIGN_OR_RETURN(
      ranks_,
      ddp::Communicator::Join(
          env_, {.device = device_,
                 .timeout = timeout,
                 // A rank that waits for its data is not missing.
                 .call_timeout = std::max(
                     timeout, config_.loader.next_timeout + kDataMargin)}));
  stop_.OnSignal([loader = data_.loader.get()] { loader->Close(); });
  MR_RETURN_IF_ERROR(StartLosses());
  MR_RETURN_IF_ERROR(StartMonitor());
  MR_RETURN_IF_ERROR(MakeModelAndOptimizer());
  // Last, because it makes the folder: a run that is refused leaves none.
  MR_RETURN_IF_ERROR(StartAudit());
  for (const std::string& line : Describe(data_)) progress_.Line(line);
  if (env_.rank == 0 && !data_.specs.shared_samples.empty()) {
    MR_LOG(WARNING) << data_.specs.shared_samples;
  }
  return absl::OkStatus();
}

absl::Status TrainingRun::CheckReplaced() const {
  MR_RETURN_IF_ERROR(
      CheckOutputFile("--json", config_.json, OutputKind::kJson));
  MR_RETURN_IF_ERROR(CheckOutputFile("--step_losses", config_.step_losses,
                                     OutputKind::kStepLosses));
  MR_RETURN_IF_ERROR(CheckOutputFile("--checkpoint", config_.checkpoint,
                                     OutputKind::kCheckpoint));
  return CheckOutputFile("--save_weights", config_.save_weights,
                         absl::EndsWith(config_.save_weights, ".safetensors")
                             ? OutputKind::kSafetensors
                             : OutputKind::kTorchWeights);
}

absl::Status TrainingRun::OpenData() {
  MR_ASSIGN_OR_RETURN(data_, OpenRunData(config_, env_, device_, resume_));
  const OpenResponse& plan = data_.loader->plan();
  summary_.plan_hash = absl::BytesToHexString(plan.plan_hash());
  summary_.fingerprint = plan.fingerprint();
  summary_.endpoint = config_.loader.endpoint;
  summary_.replay_batches = config_.repeat_batches;
  summary_.pipeline = plan.resolved_spec().ShortDebugString();
  return absl::OkStatus();
}

absl::Status TrainingRun::StartLosses() {
  // Perhaps only rank 0 has the flag; the others take part in the sums.
  torch::Tensor wanted = torch::zeros({1}, torch::kInt64);
  std::unique_ptr<StepLosses> file;
  if (env_.rank == 0 && !config_.step_losses.empty()) {
    file = std::make_unique<StepLosses>(
        config_.step_losses, resume_.file.empty()
                                 ? std::nullopt
                                 : std::make_optional(place_.position));
    MR_RETURN_IF_ERROR(file->Check());
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
      monitor_,
      monitoring::RunMonitor::Make({.rank = env_.rank,
                                    .ranks_here = env_.local_world_size,
                                    .device = device_,
                                    .tensorboard = config_.tensorboard,
                                    .log_every = config_.log_every,
                                    .steps_before = place_.steps,
                                    .profile = config_.profile,
                                    .profile_first = profiled.first,
                                    .profile_last = profiled.last},
                                   progress_, [this] {
                                     return monitoring::RunMonitor::Counters{
                                         .loader = data_.loader->stats(),
                                         .allreduce_seconds =
                                             ranks_->stats().allreduce_seconds};
                                   }));
  return absl::OkStatus();
}

// The ranks of a start share a number: the time on rank 0's clock.
absl::Status TrainingRun::StartAudit() {
  if (data_.audit_file.empty()) return absl::OkStatus();
  torch::Tensor attempt = torch::zeros({1}, torch::kInt64);
  if (env_.rank == 0) attempt.fill_(absl::ToUnixMicros(absl::Now()));
  MR_RETURN_IF_ERROR(ranks_->Sum(attempt));
  audit_attempt_ = static_cast<uint64_t>(attempt.data_ptr<int64_t>()[0]);
  absl::Status started = MakeFolders(config_.audit_dir);
  if (started.ok()) started = data_.loader->StartAudit(audit_attempt_);
  if (started.ok()) {
    started = CheckAuditStart(data_.audit_file, config_.resume, resume_.file);
  }
  return Agree(std::move(started));
}

absl::Status TrainingRun::MakeModelAndOptimizer() {
  try {
    MR_ASSIGN_OR_RETURN(
        Learner learner,
        MakeLearner(
            config_, *data_.reader,
            data_.evaluation == nullptr ? nullptr : &data_.evaluation->reader(),
            device_));
    model_ = std::move(learner.model);
    loss_ = std::move(learner.loss);
    const std::vector<torch::Tensor> trained =
        models::TrainableParameters(*model_);
    const OpenResponse& plan = data_.loader->plan();
    const optim::BatchGroups groups(plan.steps_per_epoch(), config_.accumulate);
    if (config_.accumulate > plan.steps_per_epoch() && env_.rank == 0) {
      MR_LOG(WARNING) << "--accumulate=" << config_.accumulate
                      << " is more than the "
                      << CountText(plan.steps_per_epoch(), "batch", "batches")
                      << " of an epoch: an optimiser step combines batches of "
                         "one epoch only, so --accumulate="
                      << plan.steps_per_epoch() << " has the same effect";
    }
    auto updater = std::make_unique<optim::Updater>(
        optim::UpdaterOptions(config_, groups), trained, device_);
    if (!resume_.file.empty()) {
      const optim::NamedParts state = updater->State();
      MR_RETURN_IF_ERROR(
          UsageError(RestoreCheckpoint(resume_.file, *model_, state)));
      for (const auto& [part, tensors] : state) {
        if (resume_.Holds(part)) continue;
        progress_.Line(absl::StrCat(resume_.file, " has no ", part,
                                    "; it starts from its initial state"));
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
                            .reader = *data_.reader,
                            .device = device_,
                            .timer = monitor_->timer()},
        TrainingStep::Options{.groups = groups,
                              .batch_size = plan.resolved_spec().batch_size(),
                              .precision = precision(),
                              .label_smoothing = config_.label_smoothing,
                              .seed = config_.seed.value_or(0)});
    keeper_ = std::make_unique<RunKeeper>(
        RunKeeper::Parts{.config = config_,
                         .env = env_,
                         .data = data_,
                         .model = *model_,
                         .updater = *updater_,
                         .step = *step_,
                         .progress = progress_,
                         .model_identity = model_identity_});
  } catch (const std::exception& error) {
    return FromTorch(error, "making the model");
  }
  const OpenResponse& plan = data_.loader->plan();
  summary_.model = config_.model;
  summary_.dataset = config_.dataset;
  summary_.device = device_.str();
  summary_.flags = config_.flags;
  summary_.world_size = env_.world_size;
  summary_.batch_size = plan.resolved_spec().batch_size();
  summary_.samples_per_epoch = plan.samples_per_epoch();
  summary_.parameters = static_cast<uint64_t>(models::CountParameters(*model_));
  progress_.Line(absl::StrFormat(
      "%s with %s on %s (%s, %s each): %s, %s of %d an epoch", config_.model,
      CountText(summary_.parameters, "parameter"),
      CountText(env_.world_size, "rank"), device_.str(),
      CountText(static_cast<uint64_t>(at::get_num_threads()), "thread"),
      CountText(plan.samples_per_epoch(), "sample"),
      CountText(plan.steps_per_epoch(), "step"), summary_.batch_size));
  return absl::OkStatus();
}

absl::Status TrainingRun::Verify(absl::string_view when) {
  MR_RETURN_IF_ERROR(ranks_->Broadcast(model_->buffers()));
  return ddp::VerifyReplicas(
      *model_,
      {{"the next epoch", static_cast<int64_t>(place_.position.epoch)},
       {"the next step", static_cast<int64_t>(place_.position.step)},
       {"the steps trained", static_cast<int64_t>(place_.steps)}},
      *ranks_, when);
}

absl::Status TrainingRun::Stopped() const {
  if (stop_.signal() == 0) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat("stopped by signal ", stop_.signal(),
                                           " before ", At(place_.position)));
}

absl::Status TrainingRun::Agree(absl::Status mine, bool* together) {
  return millrace::ddp::Agree(std::move(mine), *ranks_, At(place_.position),
                              together);
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

absl::Status TrainingRun::TrainEpoch(uint64_t epoch) {
  const uint64_t steps = data_.loader->plan().steps_per_epoch();
  const uint64_t first = place_.position.step;
  step_->BeginEpoch(epoch, steps);
  losses_->Begin(epoch, first, steps);
  monitor_->BeginEpoch({.epoch = epoch,
                        .epochs = config_.epochs,
                        .first = first,
                        .steps = steps});
  in_epoch_ = true;
  no_answer_before_ = data_.loader->stats().host.no_answer_seconds;
  uint64_t checked = first;
  uint64_t local_valid = 0;
  bool last = false;
  for (uint64_t step = first; step < steps && !last; ++step) {
    monitor_->BeginStep();
    monitor_->timer().Enter(monitoring::StepPart::kData);
    const auto asked = std::chrono::steady_clock::now();
    absl::StatusOr<Batch> batch = data_.loader->Next();
    if (batch.ok()) {
      ++batches_;
    } else {
      NoteFinalWait(batch.status(),
                    std::chrono::duration<double>(
                        std::chrono::steady_clock::now() - asked)
                        .count());
    }
    monitor_->timer().Enter(monitoring::StepPart::kRanks);
    // A stop also ends Next().
    absl::Status can_go_on = Stopped();
    if (can_go_on.ok()) {
      can_go_on =
          WithBadSampleAdvice(batch.status(), data_.specs.train, "--pipeline");
    }
    bool together = false;
    can_go_on = Agree(std::move(can_go_on), &together);
    if (!can_go_on.ok()) {
      // All ranks end here, and can still sum.
      if (together && gathers_losses_) LogError(losses_->Gather(*step_));
      return can_go_on;
    }
    MR_CHECK(batch->position == (Position{epoch, step}))
        << "a batch out of order: " << At(batch->position);
    local_valid += batch->local_valid;
    MR_ASSIGN_OR_RETURN(const bool updated, step_->Run(*batch));
    monitor_->EndStep(batch->global_valid);
    losses_->Add(batch->global_valid);
    if (updated) {
      ++place_.steps;
      ++place_.run_steps;
      // Before the losses are checked: the weights include this step.
      place_.position =
          step + 1 < steps ? Position{epoch, step + 1} : Position{epoch + 1, 0};
    }
    last = updated && config_.max_steps > 0 &&
           place_.run_steps >= config_.max_steps;
    if (!device_.is_cpu() &&
        (step + 1 - checked >= kLossCheckSteps || step + 1 == steps || last)) {
      MR_RETURN_IF_ERROR(step_->CheckLosses(checked, step + 1));
      checked = step + 1;
    }
    const bool checkpoint = updated && config_.checkpoint_every > 0 &&
                            step + 1 < steps &&
                            place_.steps % config_.checkpoint_every == 0;
    // Before a checkpoint: a run that resumes from it has all losses.
    if (gathers_losses_ &&
        (checkpoint || losses_->pending() >= kLossWriteSteps)) {
      MR_RETURN_IF_ERROR(losses_->Gather(*step_));
    }
    // On ranks other than 0 this does nothing; they wait in the next step. A
    // full disk need not end the run.
    if (checkpoint) {
      monitor_->LeaveOut(
          [this] { LogWrite(WriteCheckpoint(), checkpoint_failures_); });
    }
    if (monitor_->WantsLook()) {
      monitor_->Look({.axis = place_.steps,
                      .loss = step_->Loss(step, batch->global_valid),
                      .learning_rate = step_->LearningRate(step)});
    }
  }
  const auto [times, where] = monitor_->EndEpoch();
  in_epoch_ = false;
  const double samples = static_cast<double>(times.samples);

  MR_RETURN_IF_ERROR(losses_->Gather(*step_));
  summary_.samples += times.samples;
  summary_.epoch_seconds.push_back(times.seconds);
  summary_.times.Add(times);
  summary_.epoch_times.push_back(times);
  summary_.loss.push_back(losses_->total() / samples);
  monitor_->Report(place_.steps, {{"Loss/train_epoch", summary_.loss.back()},
                                  {"Train/epoch_seconds", times.seconds}});
  progress_.Line(absl::StrFormat(
      "epoch %d/%d: loss %.4f, %.2f s, %s samples/s, waiting %.1f %%",
      epoch + 1, config_.epochs, summary_.loss.back(), times.seconds,
      RateText(samples / times.seconds),
      100 * times.share(times.data_seconds)));
  if (const optim::GradScaler* scaler = updater_->scaler(); scaler != nullptr) {
    progress_.Line(absl::StrFormat("  loss scale %.10g, %s skipped so far",
                                   scaler->scale(),
                                   CountText(scaler->skipped(), "step")));
  }
  MR_RETURN_IF_ERROR(data_.bad_samples->EndEpoch(times.samples, local_valid,
                                                 *ranks_, progress_));
  summary_.where_the_time_went.push_back(where);
  progress_.Line(absl::StrCat("  ", where));
  progress_.Line(absl::StrCat("  ", diagnosis::PartsText(times)));
  // Rank 0 printed it; other ranks log it only when they were held up.
  if (env_.rank != 0 && times.share(times.data_seconds) >= kWorthSaying) {
    MR_LOG(INFO) << "rank " << env_.rank << ", epoch " << epoch + 1 << ": "
                 << where;
  }
  return absl::OkStatus();
}

void TrainingRun::NoteFinalWait(const absl::Status& error, double seconds) {
  const double no_answer =
      data_.loader->stats().host.no_answer_seconds - no_answer_before_;
  const bool gave_up =
      absl::IsDeadlineExceeded(error) || absl::IsUnavailable(error);
  // A stop closes the loader: an ordinary wait is no reason for it.
  if (gave_up || (seconds >= kLongWaitSeconds && no_answer > 0)) {
    summary_.final_wait_seconds = seconds;
  }
}

void TrainingRun::AddUnfinishedEpoch() {
  if (!in_epoch_) return;
  in_epoch_ = false;
  const diagnosis::RunTimes times = monitor_->EndUnfinishedEpoch().times;
  summary_.times.Add(times);
  summary_.samples += times.samples;
}

absl::Status TrainingRun::Evaluate() {
  // The average is evaluated; training continues with the weights.
  return keeper_->WithAverage([this] { return EvaluateModel(); });
}

absl::Status TrainingRun::EvaluateModel() {
  const absl::StatusOr<Evaluation::Result> result = data_.evaluation->Run(
      *model_, *loss_, *ranks_, device_,
      {.stopped = [this] { return Stopped(); },
       .open_loader =
           [this](DataLoader* evaluation) {
             stop_.OnSignal([training = data_.loader.get(), evaluation] {
               training->Close();
               if (evaluation != nullptr) evaluation->Close();
             });
           },
       .place = At(place_.position)});
  if (!result.ok()) {
    return WithBadSampleAdvice(result.status(), *data_.specs.eval,
                               "--eval_pipeline");
  }
  AddTo(summary_, *result);
  data_.bad_samples->AddEvaluation(result->empty_rows);
  monitor_->Report(place_.steps, EvaluationScalars(*result));
  progress_.Line(EvaluationLine(*result, data_.specs.eval_name));
  return absl::OkStatus();
}

absl::Status TrainingRun::Train() {
  model_->train();
  if (data_.done) {
    progress_.Line(absl::StrCat(
        resume_.file, " has trained ",
        place_.position.epoch == 1
            ? "the only epoch"
            : absl::StrCat("all ", place_.position.epoch, " epochs"),
        "; nothing is left to train"));
    return data_.evaluation == nullptr ? absl::OkStatus() : Evaluate();
  }
  while (place_.position.epoch < config_.epochs) {
    const uint64_t epoch = place_.position.epoch;
    if (const absl::Status trained = TrainEpoch(epoch); !trained.ok()) {
      AddUnfinishedEpoch();
      return trained;
    }
    // Before the checkpoint, which is of a model that all ranks hold.
    MR_RETURN_IF_ERROR(Verify(absl::StrCat("after epoch ", epoch + 1)));
    // A full disk need not end the run here: the write is tried again at its
    // end, where an error counts.
    LogWrite(WriteCheckpoint(), checkpoint_failures_);
    LogWrite(keeper_->SaveWeights(), weights_failures_);
    if (data_.evaluation != nullptr) MR_RETURN_IF_ERROR(Evaluate());
    if (config_.max_steps > 0 && place_.run_steps >= config_.max_steps) break;
  }
  return absl::OkStatus();
}

absl::Status TrainingRun::KeepFailedBatch(const absl::Status& error) const {
  if (step_ == nullptr || !step_->not_finite().has_value()) return error;
  // With --repeat_batches the position is not that of the trained batch.
  if (config_.repeat_batches > 0) return error;
  HostLoaderOptions options;
  options.endpoint = config_.loader.endpoint;
  options.spec = data_.loader->plan().resolved_spec();
  options.rank = env_.rank;
  options.world_size = env_.world_size;
  options.start = *step_->not_finite();
  options.open_timeout = config_.loader.open_timeout;
  options.next_timeout = std::min(config_.loader.next_timeout, kKeepTime);
  options.expected_plan_hash = data_.loader->plan().plan_hash();
  options.expected_fingerprint = data_.loader->plan().fingerprint();
  return WithWords(
      error, "",
      absl::StrCat("; ", trainer::KeepFailedBatch(options, config_)));
}

void TrainingRun::Summarize() {
  summary_.steps = place_.run_steps;
  if (const optim::GradScaler* scaler = updater_->scaler(); scaler != nullptr) {
    summary_.loss_scale = scaler->scale();
    summary_.skipped_steps = scaler->skipped();
  }
  summary_.allreduce_bytes = ranks_->stats().bytes;
  const diagnosis::RunTimes& times = summary_.times;
  summary_.samples_per_second = times.rate(static_cast<double>(times.samples));
  summary_.stall_share = times.share(times.data_seconds);
}

absl::Status TrainingRun::WriteSummary() const {
  if (env_.rank != 0 || config_.json.empty()) return absl::OkStatus();
  if (json_pipe_ == nullptr) {
    return WriteFileAtomically(config_.json, ToJson(summary_));
  }
  MR_RETURN_IF_ERROR(json_pipe_->Write(ToJson(summary_)));
  return json_pipe_->Commit();
}

absl::Status TrainingRun::WriteSummaryOf(const absl::Status& error) {
  const bool stopped = absl::IsCancelled(error) && stop_.signal() != 0;
  summary_.ended = stopped ? "stopped" : "failed";
  summary_.error = ErrorText(error);
  Summarize();
  // After another error the servers may not answer.
  if (stopped) summary_.bad_samples = data_.bad_samples->Finish();
  return WriteSummary();
}

absl::StatusOr<diagnosis::RunSummary> TrainingRun::Finish() {
  data_.loader->Close();
  MR_RETURN_IF_ERROR(Verify("at the end"));
  // The files may be on different disks: a full one must not cost the others.
  absl::Status kept = WriteCheckpoint();
  kept.Update(keeper_->SaveWeights());
  Summarize();
  const diagnosis::RunTimes& times = summary_.times;
  const int64_t world = env_.world_size;
  torch::Tensor shares = torch::zeros({2 * world}, torch::kDouble);
  shares[env_.rank] = summary_.stall_share;
  shares[world + env_.rank] = times.share(times.allreduce_seconds);
  MR_RETURN_IF_ERROR(ranks_->Sum(shares));
  const auto* share = shares.data_ptr<double>();
  summary_.rank_stall_shares.assign(share, share + world);
  summary_.rank_allreduce_shares.assign(share + world, share + 2 * world);
  kept.Update(losses_->Finish());
  if (!data_.audit_file.empty()) {
    kept.Update(
        CheckAuditIsComplete(data_.audit_file, audit_attempt_, batches_));
  }
  summary_.bad_samples = data_.bad_samples->Finish();
  kept.Update(WriteSummary());
  kept.Update(monitor_->profile_status());
  MR_RETURN_IF_ERROR(kept);
  // Last: an error here must not cost the results of the run.
  MR_RETURN_IF_ERROR(ranks_->Leave());
  return summary_;
}

}  // namespace

absl::StatusOr<diagnosis::RunSummary> RunTraining(const TrainerConfig& config,
                                                  const RankEnv& env,
                                                  StopSignals& stop) {
  MR_RETURN_IF_ERROR(config.Validate());
  TrainingRun run(config, env, stop);
  if (absl::Status status = run.SetUp(); !status.ok()) {
    // A launcher's SIGTERM must not replace the exit code of this error.
    stop.OnSignal(nullptr);
    run.Fail(status);
    // The flags, or files that they name, do not fit together or do not fit the
    // data.
    return absl::IsInvalidArgument(status) ? UsageError(status) : status;
  }
  // An error on a device often appears only at the next synchronisation.
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
    // The error that ended the run matters more than an error of the
    // checkpoint. When the ranks differ, the last checkpoint may be the only
    // good one.
    if (!absl::IsAborted(status)) LogError(run.WriteCheckpoint());
    LogError(run.WriteSummaryOf(status));
    return status;
  }
  absl::StatusOr<diagnosis::RunSummary> summary = absl::UnknownError("");
  try {
    summary = run.Finish();
  } catch (const std::exception& error) {
    summary = FromTorch(error, "ending the run");
  }
  if (!summary.ok()) {
    run.Fail(summary.status());
    LogError(run.WriteSummaryOf(summary.status()));
  }
  return summary;
}

}  // namespace millrace::trainer
