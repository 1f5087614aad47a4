#include "client/cli/spec_flags.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/receive/describe.h"
#include "common/status_macros.h"
#include "proto/spec_text.h"

namespace millrace {
namespace {

constexpr uint64_t kDefaultBatchSize = 64;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file || file.bad()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--pipeline=", path, ": cannot read the file: ",
                     errno == 0 ? "it is empty or no file" : strerror(errno)));
  }
  return text.str();
}

absl::StatusOr<LastBatch> ParseLastBatch(absl::string_view text) {
  if (text == "drop") return LAST_BATCH_DROP;
  if (text == "pad") return LAST_BATCH_PAD;
  if (text == "partial") return LAST_BATCH_PARTIAL;
  return absl::InvalidArgumentError(absl::StrCat(
      "flag --last_batch=", text, ": expected drop, pad or partial"));
}

absl::StatusOr<SameHost> ParseSameHost(absl::string_view text) {
  if (text == "off") return SameHost::kOff;
  if (text == "auto") return SameHost::kAuto;
  if (text == "require") return SameHost::kRequire;
  return absl::InvalidArgumentError(absl::StrCat(
      "flag --same_host=", text, ": expected off, auto or require"));
}

absl::StatusOr<Compression> ParseCompression(absl::string_view text) {
  if (text == "none") return COMPRESSION_NONE;
  if (text == "zstd") return COMPRESSION_ZSTD;
  return absl::InvalidArgumentError(
      absl::StrCat("flag --compression=", text, ": expected none or zstd"));
}

}  // namespace

void SpecFlags::AddTo(FlagSet& flags) {
  flags.Add("endpoint", &endpoint, "HOST:PORT[,...]",
            "the data servers; one DNS name may stand for several");
  flags.Add("dataset", &dataset, "NAME", "as registered at the server");
  flags.Add("preset", &preset, "NAME",
            "a named pipeline; neither this nor --pipeline: the dataset's own "
            "for training");
  flags.Add("pipeline", &pipeline, "FILE",
            "a pipeline of one's own, as protobuf text");
  flags.Add("batch_size", &batch_size, "N",
            "samples of a global batch (default 64, or what the pipeline "
            "says)");
  flags.Add("seed", &seed, "N", "fixes the order and every random choice");
  flags.Add("last_batch", &last_batch, "drop|pad|partial",
            "what becomes of the rest of an epoch (default drop, or what the "
            "pipeline says)");
  flags.Add("same_host", &same_host, "off|auto|require",
            "batches of a server on this machine in shared memory: where it "
            "can be, or not at all");
  flags.Add("compression", &compression, "none|zstd",
            "pack batches for a thin link (default none, or what the pipeline "
            "says); changes no batch");
  flags.Add("timeout", &timeout, "TIME",
            "give up on an endpoint that does not answer");
}

absl::Status SpecFlags::Validate() const {
  if (endpoint.empty()) {
    return absl::InvalidArgumentError("flag --endpoint=HOST:PORT is missing");
  }
  if (base.has_value()) {
    for (const auto& [name, value] :
         {std::pair{"dataset", dataset}, std::pair{"preset", preset},
          std::pair{"pipeline", pipeline}}) {
      if (value.empty()) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "--", name,
          " and synthetic data contradict each other: leave one of both out"));
    }
  } else if (dataset.empty() && pipeline.empty()) {
    return absl::InvalidArgumentError(
        "flag --dataset=NAME is missing; `millrace status` lists the datasets "
        "of a server");
  }
  if (!preset.empty() && !pipeline.empty()) {
    return absl::InvalidArgumentError(
        "--preset and --pipeline contradict each other: give one");
  }
  if (!last_batch.empty()) {
    MR_RETURN_IF_ERROR(ParseLastBatch(last_batch).status());
  }
  if (!compression.empty()) {
    MR_RETURN_IF_ERROR(ParseCompression(compression).status());
  }
  return ParseSameHost(same_host).status();
}

SameHost SpecFlags::MakeSameHost() const {
  return ParseSameHost(same_host).value_or(SameHost::kOff);
}

absl::StatusOr<PipelineSpec> SpecFlags::MakeSpec() const {
  PipelineSpec spec;
  if (base.has_value()) {
    spec = *base;
  } else if (!pipeline.empty()) {
    MR_ASSIGN_OR_RETURN(const std::string text, ReadFile(pipeline));
    MR_ASSIGN_OR_RETURN(spec, ParseSpecText(text, pipeline));
  } else if (!preset.empty()) {
    spec.set_preset(preset);
  } else {
    MR_ASSIGN_OR_RETURN(const DatasetInfo info,
                        DescribeDataset(endpoint, dataset, timeout));
    spec.set_preset(info.train_preset());
  }
  if (!dataset.empty()) {
    if (spec.sources_size() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--dataset=", dataset, " cannot stand for the ",
                       spec.sources_size(), " sources of ", pipeline));
    }
    if (spec.sources().empty()) spec.add_sources();
    spec.mutable_sources(0)->set_dataset(dataset);
  }
  if (batch_size != 0) spec.set_batch_size(batch_size);
  if (spec.batch_size() == 0) spec.set_batch_size(kDefaultBatchSize);
  if (seed != 0) spec.set_seed(seed);
  if (!last_batch.empty()) {
    MR_ASSIGN_OR_RETURN(const LastBatch value, ParseLastBatch(last_batch));
    spec.set_last_batch(value);
  }
  if (!compression.empty()) {
    MR_ASSIGN_OR_RETURN(const Compression value, ParseCompression(compression));
    spec.set_compression(value);
  }
  return spec;
}

}  // namespace millrace
