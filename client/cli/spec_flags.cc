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
#include "common/clean_text.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "common/utf8.h"
#include "proto/error_detail.h"
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
  flags.Add("dataset", &dataset, "NAME", "name of the dataset at the servers");
  flags.Add("preset", &preset, "NAME",
            "a named pipeline (default: the dataset's own for training, unless "
            "--pipeline is given)");
  flags.Add("pipeline", &pipeline, "FILE",
            "file with a pipeline, as protobuf text");
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
            "what happens to the samples at the end of an epoch that fill no "
            "whole batch (default drop, or what the pipeline says)");
  flags.Add("same_host", &same_host, "off|auto|require",
            "batches of servers on this machine: off: over the network; auto: "
            "in shared memory where that works; require: a server that cannot "
            "share memory is not used (one that ends the sharing later sends "
            "batches over the network meanwhile)");
  flags.Add("compression", &compression, "none|zstd",
            "compress batches on the network (default none, or what the "
            "pipeline says); the batches stay the same");
  flags.Add("timeout", &timeout, "TIME",
            "time after which an endpoint that does not answer is given up");
  flags.Add("step_timeout", &step_timeout, "TIME",
            "request a step from another server when it has made no progress "
            "for so long");
}

void SpecFlags::AddHedgesTo(FlagSet& flags) {
  flags.Add("hedge_share", &hedge_share, "SHARE",
            "request late steps from a second server too, at most this share "
            "of all steps; 0: never");
  flags.Add(
      "hedge_floor", &hedge_floor, "TIME",
      absl::StrCat("minimum time before a step counts as late (default ",
                   absl::FormatDuration(HostLoaderOptions().hedge_floor), ")"));
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
  if (hedge_share == 0 && hedge_floor.has_value()) {
    return absl::InvalidArgumentError(
        "--hedge_floor has no effect with --hedge_share=0: leave one of them "
        "out");
  }
  return ParseChoice("same_host", same_host, SameHosts()).status();
}

absl::Status OfRequest(absl::Status answer) {
  if (absl::IsNotFound(answer) || absl::IsInvalidArgument(answer) ||
      (absl::IsUnimplemented(answer) && HasErrorDetail(answer))) {
    return UsageError(std::move(answer));
  }
  return answer;
}

absl::Status CheckShares(const PipelineSpec& spec, uint32_t world) {
  if (world == 0 || spec.batch_size() % world == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("flag --world=", world, ": ", spec.batch_size(),
                   " samples of a global batch (--batch_size) cannot be shared "
                   "equally by ",
                   world, " ranks"));
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

void SpecFlags::ApplyTo(HostLoaderOptions& options) const {
  options.endpoint = endpoint;
  options.same_host =
      ParseChoice("same_host", same_host, SameHosts()).value_or(SameHost::kOff);
  options.open_timeout = timeout;
  options.next_timeout = std::max(absl::Seconds(60), timeout);
  options.step_timeout = step_timeout;
  options.hedge_share = hedge_share;
  options.hedge_floor = hedge_floor.value_or(options.hedge_floor);
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
                        OfRequest(DescribeDataset(endpoint, dataset, timeout)));
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
