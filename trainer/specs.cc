#include "trainer/specs.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "trainer/files.h"

namespace millrace {
namespace {

constexpr uint64_t kLargestPipelineFile = 16 << 20;

// Keeps the mistakes that protobuf's parser finds, each with its place.
class Mistakes final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    absl::StrAppend(&text_, text_.empty() ? "" : "; ", "line ", line + 1, ":",
                    column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::StatusOr<PipelineSpec> ReadPipeline(const std::string& path) {
  MR_ASSIGN_OR_RETURN(std::string text, ReadFile(path, kLargestPipelineFile));
  PipelineSpec spec;
  Mistakes mistakes;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&mistakes);
  if (!parser.ParseFromString(text, &spec)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a pipeline: ", mistakes.text(),
                     "; `millrace-data check ", path, "` says more"));
  }
  return spec;
}

absl::StatusOr<PipelineSpec> MakeSpec(const TrainerConfig& config,
                                      const std::string& dataset,
                                      const std::string& pipeline,
                                      const std::string& preset, bool train,
                                      const DescribeFunction& describe) {
  const char* flag = train ? "preset" : "eval_preset";
  PipelineSpec spec;
  if (!pipeline.empty()) {
    MR_ASSIGN_OR_RETURN(spec, ReadPipeline(pipeline));
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
  if (spec.sources_size() == 0) spec.add_sources()->set_dataset(dataset);
  if (spec.batch_size() == 0 || pipeline.empty()) {
    spec.set_batch_size(config.batch_size);
  } else if (spec.batch_size() != config.batch_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(pipeline, " says batch_size: ", spec.batch_size(),
                     ", but --batch_size is ", config.batch_size,
                     "; make them equal or leave it out of the file"));
  }
  if (spec.seed() == 0) spec.set_seed(config.seed);
  return spec;
}

}  // namespace

absl::StatusOr<RunSpecs> MakeSpecs(const TrainerConfig& config,
                                   const DescribeFunction& describe) {
  RunSpecs specs;
  MR_ASSIGN_OR_RETURN(specs.train,
                      MakeSpec(config, config.dataset, config.pipeline,
                               config.preset, /*train=*/true, describe));
  if (config.pipeline.empty() || config.last_batch == "pad") {
    specs.train.set_last_batch(config.last_batch == "pad" ? LAST_BATCH_PAD
                                                          : LAST_BATCH_DROP);
  }
  if (specs.train.last_batch() == LAST_BATCH_PARTIAL) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.pipeline,
        " has last_batch: LAST_BATCH_PARTIAL, which may give a rank no rows; "
        "training takes LAST_BATCH_DROP or LAST_BATCH_PAD"));
  }
  if (config.eval_dataset.empty()) return specs;
  MR_ASSIGN_OR_RETURN(
      specs.eval, MakeSpec(config, config.eval_dataset, config.eval_pipeline,
                           config.eval_preset, /*train=*/false, describe));
  specs.eval->mutable_shuffle()->Clear();
  specs.eval->mutable_shuffle()->set_mode(Shuffle::SEQUENTIAL);
  specs.eval->set_last_batch(LAST_BATCH_PARTIAL);
  return specs;
}

}  // namespace millrace
