#include "trainer/specs.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/spec_choices.h"
#include "trainer/subset_flag.h"

namespace millrace::trainer {
namespace {

// The training's pipeline, or the evaluation's. `from`: RunSpecs::train_from.
absl::StatusOr<PipelineSpec> MakeSpec(const SpecChoices& choices, bool train,
                                      const DescribeFunction& describe,
                                      std::string* from) {
  const absl::string_view prefix = train ? "--" : "--eval_";
  const std::string& dataset = choices.dataset;
  *from = !choices.pipeline.empty()
              ? absl::StrCat(prefix, "pipeline=", choices.pipeline)
              : absl::StrCat(prefix, "preset=", choices.preset);
  const auto recommended = [&]() -> absl::StatusOr<std::string> {
    MR_ASSIGN_OR_RETURN(const DatasetInfo info, describe(dataset));
    std::string preset = train ? info.train_preset() : info.eval_preset();
    *from = preset.empty()
                ? absl::StrCat("no preset (the dataset ", dataset,
                               " recommends none: samples as they are stored)")
                : absl::StrCat("the preset ", preset, ", which the dataset ",
                               dataset, " recommends");
    return preset;
  };
  MR_ASSIGN_OR_RETURN(PipelineSpec spec, choices.Start(recommended));
  MR_RETURN_IF_ERROR(
      choices.Replace({.prefix = prefix, .pipeline = choices.pipeline}, spec));
  return spec;
}

// Applies the flag's part to the spec's single dataset.
absl::StatusOr<Subset> PartOf(const PipelineSpec& spec, const SubsetFlag& flag,
                              const TrainerConfig& config,
                              const DescribeFunction& describe) {
  if (spec.sources_size() != 1 || spec.sources(0).has_synthetic()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag.flag, "=", flag.text,
                     " is a part of one dataset, but the pipeline has ",
                     spec.sources_size() == 1
                         ? std::string("synthetic samples")
                         : absl::StrCat(spec.sources_size(), " sources"),
                     "; write `subset` into its sources instead"));
  }
  const std::string& dataset = spec.sources(0).dataset();
  uint64_t samples = 0;  // shares need no number
  if (!flag.shares) {
    MR_ASSIGN_OR_RETURN(const DatasetInfo info, describe(dataset));
    samples = static_cast<uint64_t>(info.samples());
  }
  MR_ASSIGN_OR_RETURN(Subset part, flag.Of(dataset, samples));
  part.set_seed(config.subset_seed);
  part.set_unit(config.subset_unit);
  return part;
}

// The dataset that --eval_subset refers to without --eval_dataset.
absl::StatusOr<std::string> DatasetOf(const PipelineSpec& train,
                                      const std::string& eval_subset) {
  if (train.sources_size() == 1 && !train.sources(0).dataset().empty()) {
    return train.sources(0).dataset();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--eval_subset=", eval_subset,
      " is a part of one dataset, but the training's pipeline does not have "
      "exactly one; name the dataset with --eval_dataset"));
}

// Applies --train_subset and --eval_subset to both pipelines.
absl::Status Cut(const TrainerConfig& config, const DescribeFunction& describe,
                 RunSpecs* specs) {
  std::optional<Subset> train;
  if (!config.train_subset.empty()) {
    MR_ASSIGN_OR_RETURN(const SubsetFlag flag,
                        ParseSubsetFlag("train_subset", config.train_subset));
    MR_ASSIGN_OR_RETURN(train, PartOf(specs->train, flag, config, describe));
  }
  if (!config.eval_subset.empty()) {
    MR_ASSIGN_OR_RETURN(const SubsetFlag flag,
                        ParseSubsetFlag("eval_subset", config.eval_subset));
    MR_ASSIGN_OR_RETURN(const Subset eval,
                        PartOf(*specs->eval, flag, config, describe));
    const bool same =
        specs->train.sources_size() == 1 &&
        specs->train.sources(0).dataset() == specs->eval->sources(0).dataset();
    if (same && !train.has_value()) {
      MR_ASSIGN_OR_RETURN(train, RestOf(eval, flag));
    }
    if (same && Overlap(*train, eval)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--train_subset=", config.train_subset,
                       " and --eval_subset=", config.eval_subset,
                       " share samples of ", specs->eval->sources(0).dataset(),
                       "; the model would be evaluated on samples that it was "
                       "trained on. Choose parts that do not overlap"));
    }
    *specs->eval->mutable_sources(0)->mutable_subset() = eval;
    specs->eval_name = absl::StrCat(specs->eval_name, "[", flag.text, "]");
  }
  if (train.has_value()) {
    *specs->train.mutable_sources(0)->mutable_subset() = *train;
  }
  return absl::OkStatus();
}

// The part of its dataset that a source uses, as bounds.
Subset BoundsOf(const Source& source) {
  Subset bounds = source.subset();
  if (bounds.to() == 0) bounds.set_to(1);
  return bounds;
}

// Tells datasets apart by their content: one may be served under two names.
class Contents {
 public:
  explicit Contents(const DescribeFunction& describe) : describe_(describe) {}

  // False when the servers do not know a dataset: opening it says so.
  absl::StatusOr<bool> Same(const std::string& a, const std::string& b) {
    if (a == b) return true;
    MR_ASSIGN_OR_RETURN(const std::string of_a, FingerprintOf(a));
    MR_ASSIGN_OR_RETURN(const std::string of_b, FingerprintOf(b));
    return !of_a.empty() && of_a == of_b;
  }

 private:
  absl::StatusOr<std::string> FingerprintOf(const std::string& dataset) {
    const auto [known, added] = known_.try_emplace(dataset);
    if (!added) return known->second;
    const absl::StatusOr<DatasetInfo> info = describe_(dataset);
    if (info.ok()) {
      known->second = info->fingerprint();
    } else if (!absl::IsNotFound(info.status())) {
      return info.status();
    }
    return known->second;
  }

  const DescribeFunction& describe_;
  std::map<std::string, std::string> known_;  // fingerprints by dataset
};

// RunSpecs::shared_samples.
absl::StatusOr<std::string> SharedSamples(const RunSpecs& specs,
                                          const DescribeFunction& describe) {
  Contents contents(describe);
  for (const Source& eval : specs.eval->sources()) {
    for (const Source& train : specs.train.sources()) {
      if (eval.dataset().empty() || train.dataset().empty()) continue;
      if (!Overlap(BoundsOf(train), BoundsOf(eval))) continue;
      MR_ASSIGN_OR_RETURN(const bool same,
                          contents.Same(eval.dataset(), train.dataset()));
      if (!same) continue;
      return absl::StrCat(
          "the evaluation may use samples of ", eval.dataset(),
          eval.dataset() == train.dataset()
              ? ""
              : absl::StrCat(", which has the same content as ",
                             train.dataset(), ","),
          " that the model is trained on, so its accuracy says nothing about "
          "new data; to keep a part out of the training, give "
          "--eval_subset=0.9:1.0 without --eval_dataset");
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<RunSpecs> MakeSpecs(const TrainerConfig& config,
                                   const DescribeFunction& describe) {
  RunSpecs specs;
  std::optional<uint64_t> batch_size;
  if (config.batch_size != 0) batch_size = config.batch_size;
  MR_ASSIGN_OR_RETURN(specs.train,
                      MakeSpec({.pipeline = config.pipeline,
                                .preset = config.preset,
                                .dataset = config.dataset,
                                .outputs = config.outputs,
                                .batch_size = batch_size,
                                .seed = config.seed,
                                .last_batch = config.last_batch},
                               /*train=*/true, describe, &specs.train_from));
  if (specs.train.last_batch() == LAST_BATCH_PARTIAL) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.pipeline,
        " has last_batch: LAST_BATCH_PARTIAL, with which a rank may get no "
        "rows; give --last_batch=drop or --last_batch=pad"));
  }
  if (config.eval_dataset.empty() && config.eval_subset.empty()) {
    MR_RETURN_IF_ERROR(Cut(config, describe, &specs));
    return specs;
  }
  // A pipeline file may name another dataset.
  std::string dataset = config.eval_dataset;
  if (dataset.empty() && config.eval_pipeline.empty()) {
    MR_ASSIGN_OR_RETURN(dataset, DatasetOf(specs.train, config.eval_subset));
  }
  MR_ASSIGN_OR_RETURN(
      specs.eval,
      MakeSpec({.pipeline = config.eval_pipeline,
                .preset = config.eval_preset,
                .dataset = dataset,
                .outputs = config.eval_pipeline.empty() ? config.outputs
                                                        : std::string(),
                .batch_size = specs.train.batch_size(),
                .seed = config.seed},
               /*train=*/false, describe, &specs.eval_from));
  if (specs.eval->sources().empty()) {
    MR_ASSIGN_OR_RETURN(dataset, DatasetOf(specs.train, config.eval_subset));
    specs.eval->add_sources()->set_dataset(dataset);
  }
  specs.eval_name = specs.eval->sources(0).dataset();
  specs.eval->mutable_shuffle()->Clear();
  specs.eval->mutable_shuffle()->set_mode(Shuffle::SEQUENTIAL);
  specs.eval->set_last_batch(LAST_BATCH_PARTIAL);
  MR_RETURN_IF_ERROR(Cut(config, describe, &specs));
  MR_ASSIGN_OR_RETURN(specs.shared_samples, SharedSamples(specs, describe));
  return specs;
}

}  // namespace millrace::trainer
