#include "client/cli/spec_flags.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/receive/describe.h"
#include "client/receive/endpoint.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "proto/output_names.h"
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

// What the values of a flag stand for, in the order in which an error lists
// them.
template <typename T>
using Choices = std::vector<std::pair<absl::string_view, T>>;

const Choices<LastBatch>& LastBatches() {
  static const auto* const choices =
      new Choices<LastBatch>{{"drop", LAST_BATCH_DROP},
                             {"pad", LAST_BATCH_PAD},
                             {"partial", LAST_BATCH_PARTIAL}};
  return *choices;
}

const Choices<SameHost>& SameHosts() {
  static const auto* const choices =
      new Choices<SameHost>{{"off", SameHost::kOff},
                            {"auto", SameHost::kAuto},
                            {"require", SameHost::kRequire}};
  return *choices;
}

const Choices<Compression>& Compressions() {
  static const auto* const choices = new Choices<Compression>{
      {"none", COMPRESSION_NONE}, {"zstd", COMPRESSION_ZSTD}};
  return *choices;
}

template <typename T>
absl::StatusOr<T> ParseChoice(absl::string_view flag, absl::string_view text,
                              const Choices<T>& choices) {
  std::string expected;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].first == text) return choices[i].second;
    const bool last = i + 1 == choices.size();
    absl::StrAppend(&expected,
                    i == 0 ? ""
                    : last ? " or "
                           : ", ",
                    choices[i].first);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("flag --", flag, "=", text, ": expected ", expected));
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
  flags.Add("outputs", &outputs, "FIELD,...",
            "fields of the dataset that become tensors of a batch (default: "
            "what the pipeline lists, else all)");
  flags.Add("batch_size", &batch_size, "N",
            "samples of a global batch (default 64, or what the pipeline "
            "says)");
  flags.Add("seed", &seed, "N",
            "fixes the order and every random choice (default 0, or what the "
            "pipeline says)");
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
  flags.Add("step_timeout", &step_timeout, "TIME",
            "ask another server for a step without progress for so long");
  flags.Add("hedge_share", &hedge_share, "SHARE",
            "ask a second server for steps that are late, at most for this "
            "share of them; 0: never");
  flags.Add("hedge_floor", &hedge_floor, "TIME", "no step is late before");
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
  if (batch_size == uint64_t{0}) {
    return absl::InvalidArgumentError(
        "flag --batch_size=0: expected a number of samples from 1");
  }
  PipelineSpec unused;
  MR_RETURN_IF_ERROR(SelectOutputs(outputs, unused));
  if (!last_batch.empty()) {
    MR_RETURN_IF_ERROR(
        ParseChoice("last_batch", last_batch, LastBatches()).status());
  }
  if (!compression.empty()) {
    MR_RETURN_IF_ERROR(
        ParseChoice("compression", compression, Compressions()).status());
  }
  return ValidateHow();
}

absl::Status SpecFlags::ValidateHow() const {
  if (!endpoint.empty()) {
    MR_RETURN_IF_ERROR(ParseEndpoint(endpoint).status());
  }
  if (!(hedge_share >= 0 && hedge_share <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("flag --hedge_share=", hedge_share,
                     ": expected a share of the steps, 0 (never) to 1"));
  }
  if (hedge_share == 0 && hedge_floor != HostLoaderOptions().hedge_floor) {
    return absl::InvalidArgumentError(
        "--hedge_floor has no effect with --hedge_share=0: leave one of them "
        "out");
  }
  return ParseChoice("same_host", same_host, SameHosts()).status();
}

void SpecFlags::ApplyTo(HostLoaderOptions& options) const {
  options.endpoint = endpoint;
  options.same_host =
      ParseChoice("same_host", same_host, SameHosts()).value_or(SameHost::kOff);
  options.open_timeout = timeout;
  options.next_timeout = std::max(absl::Seconds(60), timeout);
  options.step_timeout = step_timeout;
  options.hedge_share = hedge_share;
  options.hedge_floor = hedge_floor;
}

absl::StatusOr<PipelineSpec> SpecFlags::MakeSpec() const {
  PipelineSpec spec;
  if (base.has_value()) {
    spec = *base;
  } else if (!pipeline.empty()) {
    MR_ASSIGN_OR_RETURN(const std::string text, UsageError(ReadFile(pipeline)));
    MR_ASSIGN_OR_RETURN(spec, UsageError(ParseSpecText(text, pipeline)));
  } else if (!preset.empty()) {
    spec.set_preset(preset);
  } else {
    MR_ASSIGN_OR_RETURN(const DatasetInfo info,
                        DescribeDataset(endpoint, dataset, timeout));
    spec.set_preset(info.train_preset());
  }
  if (!dataset.empty()) {
    if (spec.sources_size() > 1) {
      return UsageError(absl::InvalidArgumentError(
          absl::StrCat("--dataset=", dataset, " cannot stand for the ",
                       spec.sources_size(), " sources of ", pipeline)));
    }
    if (spec.sources().empty()) spec.add_sources();
    spec.mutable_sources(0)->set_dataset(dataset);
  }
  MR_RETURN_IF_ERROR(SelectOutputs(outputs, spec));
  if (batch_size.has_value()) spec.set_batch_size(*batch_size);
  if (spec.batch_size() == 0) spec.set_batch_size(kDefaultBatchSize);
  if (seed.has_value()) spec.set_seed(*seed);
  if (!last_batch.empty()) {
    MR_ASSIGN_OR_RETURN(const LastBatch value,
                        ParseChoice("last_batch", last_batch, LastBatches()));
    spec.set_last_batch(value);
  }
  if (!compression.empty()) {
    MR_ASSIGN_OR_RETURN(
        const Compression value,
        ParseChoice("compression", compression, Compressions()));
    spec.set_compression(value);
  }
  return spec;
}

}  // namespace millrace
