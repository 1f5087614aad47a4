#include "trainer/run_data.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/receive/server_queries.h"
#include "common/count_text.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "proto/error_detail.h"
#include "trainer/error_text.h"
#include "trainer/losses/loss_kind.h"
#include "trainer/models/model_name.h"
#include "trainer/optim/precision.h"
#include "trainer/pipeline_text.h"

namespace millrace::trainer {
namespace {

// `error` of a request to the servers. A dataset or a preset that no server
// knows is a mistake in the flag that names it, and so is a pipeline that no
// server can run.
absl::Status OfNames(absl::Status error) {
  const bool refused = absl::IsUnimplemented(error) && HasErrorDetail(error);
  return absl::IsNotFound(error) || refused ? UsageError(std::move(error))
                                            : error;
}

// `error` of opening the training's pipeline. When neither a flag nor the
// dataset names a pipeline, the server recommends transforms, because it does
// not know the use of a preset.
absl::Status WithPresetAdvice(const absl::Status& error,
                              const TrainerConfig& config,
                              const RunSpecs& specs) {
  if (!absl::IsInvalidArgument(error) || !config.pipeline.empty() ||
      !specs.train.preset().empty() ||
      !absl::StrContains(error.message(), "decode_image")) {
    return error;
  }
  return WithWords(error, "",
                   "; --preset=NAME selects such transforms by one name: "
                   "--preset=imagenet_train for photographs");
}

DataLoader::Options OptionsFor(const TrainerConfig& config, const RankEnv& env,
                               torch::Device device, const PipelineSpec& spec) {
  DataLoader::Options options;
  static_cast<LoaderOptions&>(options) = config.loader;
  options.spec = spec;
  options.rank = env.rank;
  options.world_size = env.world_size;
  options.device = device;
  options.device_prefetch = config.device_prefetch;
  options.prepare_ahead = config.prepare_ahead;
  return options;
}

BatchReader::Options ReaderOptions(const TrainerConfig& config,
                                   losses::LossKind loss) {
  const absl::StatusOr<models::ModelName> model =
      models::ParseModelName(config.model);
  return {.input = config.input,
          .target = config.target,
          .loss = loss,
          .classes = static_cast<int64_t>(config.classes),
          .ignore_value = config.ignore_value,
          .channels_last = config.channels_last,
          .as_stored = model.ok() && !model->file.empty()};
}

absl::Status OpenTraining(const TrainerConfig& config, const RankEnv& env,
                          torch::Device device, const ResumePoint& resume,
                          RunData& data) {
  MR_ASSIGN_OR_RETURN(
      data.specs,
      MakeSpecs(
          config,
          [&config](const std::string& dataset) -> absl::StatusOr<DatasetInfo> {
            auto info = receive::DescribeDataset(
                config.loader.endpoint, dataset, config.loader.open_timeout);
            if (!info.ok()) return OfNames(info.status());
            return info;
          }));
  data.bad_samples = std::make_unique<BadSampleReport>(
      BadSampleReport::Options{.endpoint = config.loader.endpoint,
                               .rank = env.rank},
      data.specs);
  DataLoader::Options options =
      OptionsFor(config, env, device, data.specs.train);
  // A job that is restarted after its end, or in its last evaluation, is
  // evaluated; that is no error.
  const Position& position = resume.info.position;
  data.done = position.epoch >= config.epochs;
  if (data.done && config.resume != "auto") {
    return absl::InvalidArgumentError(absl::StrCat(
        resume.file, " has trained ", CountText(position.epoch, "epoch"),
        "; raise --epochs to train more"));
  }
  options.start = position;
  options.epochs = data.done ? 1 : config.epochs - position.epoch;
  options.repeat_batches = config.repeat_batches;
  options.expected_plan_hash = resume.info.plan_hash;
  options.expected_fingerprint = resume.info.fingerprint;
  if (!config.audit_dir.empty() && !data.done) {
    data.audit_file = config.AuditFile(env.rank);
    options.audit_file = data.audit_file;
  }
  absl::StatusOr<std::unique_ptr<DataLoader>> opened =
      DataLoader::Open(options);
  if (!opened.ok()) {
    HostLoaderOptions host;
    static_cast<LoaderOptions&>(host) = options;
    return OfNames(NameChangedFlags(
        WithPresetAdvice(opened.status(), config, data.specs), resume, host));
  }
  data.loader = *std::move(opened);
  const OpenResponse& plan = data.loader->plan();
  MR_ASSIGN_OR_RETURN(const losses::LossName loss,
                      losses::ParseLossName(config.loss));
  MR_ASSIGN_OR_RETURN(
      BatchReader reader,
      BatchReader::Make(plan, ReaderOptions(config, loss.kind)));
  data.reader = std::make_unique<BatchReader>(std::move(reader));
  if (!resume.file.empty() && resume.info.classes != data.reader->classes()) {
    return absl::InvalidArgumentError(
        absl::StrCat(resume.file, " holds a model for ",
                     CountText(static_cast<uint64_t>(resume.info.classes),
                               "class", "classes"),
                     ", but the data now have ", data.reader->classes(),
                     " (--classes, --target); give the flags that the "
                     "checkpoint was written with"));
  }
  return absl::OkStatus();
}

absl::Status OpenEvaluation(const TrainerConfig& config, const RankEnv& env,
                            torch::Device device, RunData& data) {
  if (!data.specs.eval.has_value()) return absl::OkStatus();
  MR_ASSIGN_OR_RETURN(const losses::LossName loss,
                      losses::ParseLossName(config.loss));
  absl::StatusOr<std::unique_ptr<Evaluation>> made = Evaluation::Make(
      {.dataset = data.specs.eval_name,
       .loader = OptionsFor(config, env, device, *data.specs.eval),
       .reader = ReaderOptions(config, loss.kind),
       .precision = *optim::PrecisionByName(config.precision, device.type())},
      config.dataset, *data.reader);
  if (!made.ok()) {
    const absl::Status error = OfNames(made.status());
    return WithWords(error,
                     absl::StrCat("evaluation by ", data.specs.eval_from, ": "),
                     absl::IsInvalidArgument(error) || IsUsageError(error)
                         ? "; --preset and --pipeline apply to training only: "
                           "set the evaluation's pipeline with "
                           "--eval_preset=NAME or --eval_pipeline=FILE"
                         : "");
  }
  data.evaluation = *std::move(made);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RunData> OpenRunData(const TrainerConfig& config,
                                    const RankEnv& env, torch::Device device,
                                    const ResumePoint& resume) {
  RunData data;
  MR_RETURN_IF_ERROR(OpenTraining(config, env, device, resume, data));
  MR_RETURN_IF_ERROR(OpenEvaluation(config, env, device, data));
  return data;
}

std::vector<std::string> Describe(const RunData& data) {
  const models::InputForm& input = data.reader->form_of_input();
  std::vector<std::string> lines = {
      absl::StrCat("learns ", data.reader->target(),
                   data.reader->classes() > 0
                       ? absl::StrCat(" (", data.reader->classes(), " classes)")
                       : "",
                   " from ", data.reader->input(), ", ",
                   input.type == torch::kLong ? "int64" : "float32", " [",
                   absl::StrJoin(input.sizes, ", "), "] a sample")};
  if (data.evaluation == nullptr) {
    lines.push_back(absl::StrCat("pipeline: ", data.specs.train_from));
    return lines;
  }
  const std::string difference = DifferenceOfPipelines(
      data.loader->plan().resolved_spec(), data.evaluation->pipeline());
  lines.push_back(absl::StrCat(
      "pipelines: training by ", data.specs.train_from, ", evaluation by ",
      data.specs.eval_from, "; ",
      difference.empty() ? "both produce the same from a sample"
                         : absl::StrCat("they differ in ", difference,
                                        " (--eval_preset or --eval_pipeline "
                                        "set the evaluation's)")));
  return lines;
}

}  // namespace millrace::trainer
