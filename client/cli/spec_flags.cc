#include "client/cli/spec_flags.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/receive/endpoint.h"
#include "client/receive/server_queries.h"
#include "common/clean_text.h"
#include "common/count_text.h"
#include "common/nearest_divisors.h"
#include "common/read_file.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "common/utf8.h"
#include "proto/error_detail.h"
#include "proto/output_names.h"
#include "proto/spec_text.h"

namespace millrace::cli {
namespace {

constexpr uint64_t kDefaultBatchSize = 64;

}  // namespace

void SpecFlags::AddTo(program::FlagSet& flags) {
  flags.Group("Data");
  loader.AddEndpoint(flags);
  flags.Add("dataset", &dataset, "NAME",
            "Name of the dataset at the servers; `millrace status` lists them");
  flags
      .Add("preset", &preset, "NAME",
           "Pipeline by name, such as imagenet_train")
      .Default("the dataset's own for training");
  flags.Add("pipeline", &pipeline, "FILE",
            "Pipeline from a file, a PipelineSpec as protobuf text");
  flags
      .Add("outputs", &outputs, "FIELD,...",
           "Fields of the dataset that become tensors of a batch")
      .Default("those that the pipeline lists, or all");
  flags.Add("batch_size", &batch_size, "N", "Samples of a global batch")
      .Default("the pipeline's, or 64");
  flags.Add("seed", &seed, "N", "Seed of the order and of every random choice")
      .Default("the pipeline's, or 0");
  flags
      .Add("last_batch", &last_batch, "drop|pad|partial",
           "What happens to the samples at the end of an epoch that fill no "
           "whole batch")
      .Choice()
      .Default("the pipeline's, or drop");
  flags.Group("Loading");
  loader.AddConnection(flags);
  flags
      .Add("compression", &compression, "none|zstd",
           "Compression of batches on the network; the batches stay the same")
      .Choice()
      .Default("the pipeline's, or none");
}

absl::Status SpecFlags::Validate() const {
  if (loader.options.endpoint.empty()) {
    return absl::InvalidArgumentError("flag --endpoint=HOST:PORT is missing");
  }
  if (base.has_value()) {
    for (const auto& [name, value] :
         {std::pair{"dataset", dataset}, std::pair{"preset", preset},
          std::pair{"pipeline", pipeline}}) {
      if (value.empty()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "--", name,
          " and synthetic data cannot be used together: remove one of them"));
    }
  } else if (dataset.empty() && pipeline.empty()) {
    return absl::InvalidArgumentError(
        "flag --dataset=NAME is missing; `millrace status` lists the datasets "
        "of a server");
  }
  if (!preset.empty() && !pipeline.empty()) {
    return absl::InvalidArgumentError(
        "--preset and --pipeline cannot be used together: remove one of them");
  }
  if (batch_size == uint64_t{0}) {
    return absl::InvalidArgumentError(
        "flag --batch_size=0: expected a number of samples from 1");
  }
  for (const auto& [name, value] :
       {std::pair{"dataset", dataset}, std::pair{"preset", preset},
        std::pair{"outputs", outputs}}) {
    if (IsUtf8(value)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("flag --", name, "=", CleanText(value, 200),
                     ": the value is not UTF-8, as the names of servers are"));
  }
  PipelineSpec unused;
  MR_RETURN_IF_ERROR(SelectOutputs(outputs, unused));
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

absl::Status CheckRank(uint32_t rank, uint32_t world) {
  if (world == 0) {
    return absl::InvalidArgumentError(
        "flag --world=0: expected a number of ranks from 1");
  }
  if (rank < world) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("flag --rank=", rank, ": there is no rank ", rank, " of ",
                   world, " (--world); ranks count from 0"));
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
  } else if (!pipeline.empty()) {
    MR_ASSIGN_OR_RETURN(
        const std::string text,
        UsageError(ReadFile(pipeline, kMaxTextFileBytes, "the pipeline")));
    MR_ASSIGN_OR_RETURN(spec, UsageError(ParseSpecText(text, pipeline)));
  } else if (!preset.empty()) {
    spec.set_preset(preset);
  } else {
    MR_ASSIGN_OR_RETURN(
        const DatasetInfo info,
        OfRequest(receive::DescribeDataset(loader.options.endpoint, dataset,
                                           loader.options.open_timeout)));
    spec.set_preset(info.train_preset());
  }
  if (!dataset.empty()) {
    if (spec.sources_size() > 1) {
      return UsageError(absl::InvalidArgumentError(
          absl::StrCat("--dataset=", dataset, " cannot replace the ",
                       spec.sources_size(), " sources of ", pipeline)));
    }
    if (spec.sources().empty()) spec.add_sources();
    spec.mutable_sources(0)->set_dataset(dataset);
  }
  if (spec.sources().empty()) {
    return UsageError(absl::InvalidArgumentError(absl::StrCat(
        "--pipeline=", pipeline,
        ": the file names no dataset; give "
        "--dataset=NAME, or add sources { dataset: \"NAME\" } to the file")));
  }
  MR_RETURN_IF_ERROR(SelectOutputs(outputs, spec));
  if (batch_size.has_value()) spec.set_batch_size(*batch_size);
  if (spec.batch_size() == 0) spec.set_batch_size(kDefaultBatchSize);
  if (seed.has_value()) spec.set_seed(*seed);
  if (!last_batch.empty()) {
    spec.set_last_batch(last_batch == "drop"  ? LAST_BATCH_DROP
                        : last_batch == "pad" ? LAST_BATCH_PAD
                                              : LAST_BATCH_PARTIAL);
  }
  if (!compression.empty()) {
    spec.set_compression(compression == "zstd" ? COMPRESSION_ZSTD
                                               : COMPRESSION_NONE);
  }
  return spec;
}

}  // namespace millrace::cli
