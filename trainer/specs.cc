#include "trainer/specs.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/spec_text.h"
#include "trainer/files.h"

namespace millrace {
namespace {

constexpr uint64_t kLargestPipelineFile = 16 << 20;
constexpr uint64_t kDefaultBatchSize = 64;

absl::StatusOr<PipelineSpec> MakeSpec(const TrainerConfig& config,
                                      const std::string& dataset,
                                      const std::string& pipeline,
                                      const std::string& preset,
                                      uint64_t batch_size, bool train,
                                      const DescribeFunction& describe) {
  const char* flag = train ? "preset" : "eval_preset";
  PipelineSpec spec;
  if (!pipeline.empty()) {
    MR_ASSIGN_OR_RETURN(const std::string text,
                        ReadFile(pipeline, kLargestPipelineFile));
    MR_ASSIGN_OR_RETURN(spec, ParseSpecText(text, pipeline));
  } else if (!preset.empty()) {
    spec.set_preset(preset);
  } else {
    MR_ASSIGN_OR_RETURN(DatasetInfo info, describe(dataset));
    spec.set_preset(train ? info.train_preset() : info.eval_preset());
    if (spec.preset().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the dataset ", dataset, " recommends no preset for ",
                       train ? "training" : "evaluation", "; give --", flag,
                       "=NAME or --", train ? "" : "eval_", "pipeline=FILE"));
    }
  }
  // What the flags say replaces what a file says.
  if (!dataset.empty()) {
    if (spec.sources_size() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("the dataset ", dataset, " cannot stand for the ",
                       spec.sources_size(), " sources of ", pipeline));
    }
    if (spec.sources().empty()) spec.add_sources();
    spec.mutable_sources(0)->set_dataset(dataset);
  }
  if (batch_size != 0) spec.set_batch_size(batch_size);
  if (spec.batch_size() == 0) spec.set_batch_size(kDefaultBatchSize);
  if (config.seed != 0) spec.set_seed(config.seed);
  return spec;
}

}  // namespace

absl::StatusOr<RunSpecs> MakeSpecs(const TrainerConfig& config,
                                   const DescribeFunction& describe) {
  RunSpecs specs;
  MR_ASSIGN_OR_RETURN(specs.train,
                      MakeSpec(config, config.dataset, config.pipeline,
                               config.preset, config.batch_size,
                               /*train=*/true, describe));
  if (!config.last_batch.empty()) {
    specs.train.set_last_batch(config.last_batch == "pad" ? LAST_BATCH_PAD
                                                          : LAST_BATCH_DROP);
  }
  if (specs.train.last_batch() == LAST_BATCH_PARTIAL) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.pipeline,
        " has last_batch: LAST_BATCH_PARTIAL, which may give a rank no rows; "
        "give --last_batch=drop or pad"));
  }
  if (config.eval_dataset.empty()) return specs;
  MR_ASSIGN_OR_RETURN(
      specs.eval, MakeSpec(config, config.eval_dataset, config.eval_pipeline,
                           config.eval_preset, specs.train.batch_size(),
                           /*train=*/false, describe));
  specs.eval->mutable_shuffle()->Clear();
  specs.eval->mutable_shuffle()->set_mode(Shuffle::SEQUENTIAL);
  specs.eval->set_last_batch(LAST_BATCH_PARTIAL);
  return specs;
}

}  // namespace millrace
