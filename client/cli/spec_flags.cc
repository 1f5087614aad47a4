#include "client/cli/spec_flags.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/receive/endpoint.h"
#include "client/receive/server_queries.h"
#include "common/clean_text.h"
#include "common/count_text.h"
#include "common/nearest_divisors.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "common/utf8.h"
#include "proto/error_detail.h"
#include "proto/output_names.h"

namespace millrace::cli {

void SpecFlags::AddTo(program::FlagSet& flags) {
  flags.Group("Data");
  loader.AddEndpoint(flags);
  flags.Add("dataset", &choices.dataset, "NAME",
            "Name of the dataset at the servers; `millrace status` lists them");
  flags
      .Add("preset", &choices.preset, "NAME",
           "Pipeline by name, such as imagenet_train")
      .Default("the dataset's own for training");
  flags.Add("pipeline", &choices.pipeline, "FILE",
            "Pipeline from a file, a PipelineSpec as protobuf text");
  flags
      .Add("outputs", &choices.outputs, "FIELD,...",
           "Fields of the dataset that become tensors of a batch")
      .Default("those that the pipeline lists, or all");
  flags.Add("batch_size", &choices.batch_size, "N", "Samples of a global batch")
      .Default("the pipeline's, or 64");
  flags
      .Add("seed", &choices.seed, "N",
           "Seed of the order and of every random choice")
      .Default("the pipeline's, or 0");
  flags
      .Add("last_batch", &choices.last_batch, "drop|pad|partial",
           "What happens to the samples at the end of an epoch that fill no "
           "whole batch")
      .Choice()
      .Default("the pipeline's, or drop");
  flags.Group("Loading");
  loader.AddConnection(flags);
  flags
      .Add("compression", &choices.compression, "none|zstd",
           "Compression of batches on the network; the batches stay the same")
      .Choice()
      .Default("the pipeline's, or none");
}

absl::Status SpecFlags::Validate() const {
  MR_RETURN_IF_ERROR(loader.RequireEndpoint());
  if (base.has_value()) {
    for (const auto& [name, value] :
         {std::pair{"dataset", choices.dataset},
          std::pair{"preset", choices.preset},
          std::pair{"pipeline", choices.pipeline}}) {
      if (value.empty()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "--", name,
          " and synthetic data cannot be used together: remove one of them"));
    }
  } else if (choices.dataset.empty() && choices.pipeline.empty()) {
    return absl::InvalidArgumentError(
        "flag --dataset=NAME is missing; `millrace status` lists the datasets "
        "of a server");
  }
  if (!choices.preset.empty() && !choices.pipeline.empty()) {
    return absl::InvalidArgumentError(
        "--preset and --pipeline cannot be used together: remove one of them");
  }
  if (choices.batch_size == uint64_t{0}) {
    return absl::InvalidArgumentError(
        "flag --batch_size=0: expected a number of samples from 1");
  }
  for (const auto& [name, value] : {std::pair{"dataset", choices.dataset},
                                    std::pair{"preset", choices.preset},
                                    std::pair{"outputs", choices.outputs}}) {
    if (IsUtf8(value)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("flag --", name, "=", CleanText(value, 200),
                     ": the value is not UTF-8, as the names of servers are"));
  }
  PipelineSpec unused;
  MR_RETURN_IF_ERROR(SelectOutputs(choices.outputs, unused));
  return ValidateHow();
}

absl::Status SpecFlags::ValidateHow() const {
  if (!loader.options.endpoint.empty()) {
    MR_RETURN_IF_ERROR(
        receive::ParseEndpoint(loader.options.endpoint).status());
  }
  return loader.Validate();
}

namespace {

// The answer of a server with --refuse_synthetic. Another start of this command
// does not help.
bool IsRefusedSynthetic(const absl::Status& answer) {
  if (!absl::IsFailedPrecondition(answer)) return false;
  const ErrorDetail detail = GetErrorDetail(answer);
  return detail.stage() == "plan" && detail.dataset() == "synthetic";
}

}  // namespace

absl::Status OfRequest(absl::Status answer) {
  if (IsRefusedSynthetic(answer) || absl::IsNotFound(answer) ||
      absl::IsInvalidArgument(answer) ||
      (absl::IsUnimplemented(answer) && HasErrorDetail(answer))) {
    return UsageError(std::move(answer));
  }
  return answer;
}

absl::Status CheckShares(const PipelineSpec& spec, uint32_t world) {
  if (world == 0 || spec.batch_size() % world == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "flag --world=", world, ": ", CountText(spec.batch_size(), "sample"),
      " of a global batch (--batch_size) cannot be shared equally "
      "by ",
      CountText(world, "rank"), "; the nearest sizes that divide it: ",
      NearestDivisorsText(spec.batch_size(), world)));
}

HostLoaderOptions SpecFlags::MakeOptions() const {
  HostLoaderOptions options;
  static_cast<LoaderOptions&>(options) = loader.options;
  options.next_timeout = std::max(absl::Seconds(60), options.open_timeout);
  return options;
}

absl::StatusOr<PipelineSpec> SpecFlags::MakeSpec() const {
  PipelineSpec spec;
  if (base.has_value()) {
    spec = *base;
  } else {
    const auto recommended = [this]() -> absl::StatusOr<std::string> {
      MR_ASSIGN_OR_RETURN(const DatasetInfo info,
                          OfRequest(receive::DescribeDataset(
                              loader.options.endpoint, choices.dataset,
                              loader.options.open_timeout)));
      return info.train_preset();
    };
    MR_ASSIGN_OR_RETURN(spec, choices.Start(recommended));
  }
  MR_RETURN_IF_ERROR(choices.Replace({.pipeline = choices.pipeline}, spec));
  if (spec.sources().empty()) {
    return UsageError(absl::InvalidArgumentError(absl::StrCat(
        "--pipeline=", choices.pipeline,
        ": the file names no dataset; give "
        "--dataset=NAME, or add sources { dataset: \"NAME\" } to the file")));
  }
  return spec;
}

}  // namespace millrace::cli
