#include "trainer/bad_sample_report.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/receive/server_queries.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "proto/bad_sample_hint.h"
#include "proto/data_service.pb.h"
#include "proto/error_detail.h"
#include "trainer/error_text.h"

namespace millrace::trainer {
namespace {

// Max damaged samples that are logged when the servers meet them; the summary
// lists all.
constexpr size_t kNamedAtOnce = 10;
// Max damaged samples that one line names.
constexpr size_t kNamedInLine = 3;
// Time for the servers to report their damaged samples.
constexpr absl::Duration kStatusTime = absl::Seconds(1);

// The reports of all servers of the endpoint. A server that does not answer
// reports nothing.
std::vector<BadSample> AskForBadSamples(const std::string& endpoint) {
  std::vector<BadSample> samples;
  const auto servers = receive::GetServerStatus(endpoint, kStatusTime);
  if (!servers.ok()) return samples;
  for (const receive::ServerStatus& server : *servers) {
    if (!server.status.ok()) continue;
    samples.insert(samples.end(), server.status->recent_bad_samples().begin(),
                   server.status->recent_bad_samples().end());
  }
  return samples;
}

// The policy's effect on a damaged sample, as the end of a sentence.
absl::string_view FateOf(BadSamplePolicy::Action action) {
  return action == BadSamplePolicy::ZERO
             ? "bad_samples ZERO leaves its row empty; the row does not count "
               "in loss, gradient and accuracy"
             : "bad_samples SUBSTITUTE puts another sample in its place";
}

// "photos shard a.mdb row 17, ... and 4 more"
std::string PlacesOf(const std::vector<BadSample>& samples) {
  std::string places;
  for (size_t i = 0; i < std::min(samples.size(), kNamedInLine); ++i) {
    absl::StrAppend(&places, i > 0 ? ", " : "", PlaceOf(samples[i]));
  }
  if (samples.size() > kNamedInLine) {
    absl::StrAppend(&places, " and ", samples.size() - kNamedInLine, " more");
  }
  return places;
}

using Policies = std::map<std::string, BadSamplePolicy::Action>;  // by dataset

// Datasets whose damaged samples do not end the run.
Policies PoliciesOf(const RunSpecs& specs) {
  Policies policies;
  const auto add = [&policies](const PipelineSpec& spec) {
    if (spec.bad_samples().action() == BadSamplePolicy::FAIL) return;
    for (const Source& source : spec.sources()) {
      policies.emplace(source.dataset(), spec.bad_samples().action());
    }
  };
  add(specs.train);
  if (specs.eval.has_value()) add(*specs.eval);
  return policies;
}

}  // namespace

BadSampleReport::BadSampleReport(const Options& options, const RunSpecs& specs)
    // No preset has a policy.
    : policy_(specs.train.bad_samples().action()) {
  summary_.policy = BadSamplePolicy::Action_Name(policy_);
  const Policies policies = PoliciesOf(specs);
  if (options.rank != 0 || policies.empty()) return;
  std::set<std::string> datasets;
  for (const auto& [dataset, action] : policies) datasets.insert(dataset);
  watch_ = std::make_unique<BadSampleWatch>(BadSampleWatch::Options{
      .datasets = std::move(datasets),
      .ask = [endpoint =
                  options.endpoint] { return AskForBadSamples(endpoint); },
      .say =
          [policies, said = size_t{0}](const BadSample& bad) mutable {
            if (++said > kNamedAtOnce + 1) return;
            if (said > kNamedAtOnce) {
              MR_LOG(WARNING) << "further damaged samples are not logged; "
                                 "`millrace status` and --json list them";
              return;
            }
            MR_LOG(WARNING)
                << "a data server found a damaged sample: " << PlaceOf(bad)
                << " (" << bad.reason() << "); "
                << FateOf(policies.at(bad.dataset()));
          }});
}

absl::Status BadSampleReport::EndEpoch(uint64_t samples, uint64_t local_valid,
                                       ddp::Communicator& ranks,
                                       Progress& progress) {
  uint64_t empty = 0;
  if (policy_ == BadSamplePolicy::ZERO) {
    torch::Tensor valid =
        at::full({1}, static_cast<int64_t>(local_valid), torch::kInt64);
    MR_RETURN_IF_ERROR(ranks.Sum(valid));
    empty = samples - static_cast<uint64_t>(valid.data_ptr<int64_t>()[0]);
    summary_.empty_rows.push_back(empty);
  }
  if (watch_ == nullptr) return absl::OkStatus();
  watch_->Look();
  const std::vector<BadSample> met = watch_->found();
  if (empty > 0) {
    progress.Line(absl::StrCat(
        "  bad samples: ", empty, " of ", samples,
        " rows of this epoch are empty (bad_samples ZERO)",
        met.empty() ? "" : absl::StrCat("; damaged: ", PlacesOf(met))));
  } else if (policy_ == BadSamplePolicy::SUBSTITUTE && !met.empty()) {
    progress.Line(absl::StrCat(
        "  bad samples: the servers found ", met.size(),
        met.size() == 1 ? " damaged sample" : " damaged samples",
        " so far and substituted others (bad_samples SUBSTITUTE); damaged: ",
        PlacesOf(met)));
  }
  return absl::OkStatus();
}

diagnosis::BadSampleSummary BadSampleReport::Finish() {
  if (watch_ != nullptr) {
    watch_->Look();
    for (const BadSample& bad : watch_->found()) {
      summary_.damaged.push_back(
          {bad.dataset(), bad.shard(), bad.row(), bad.sample(), bad.reason()});
    }
  }
  return summary_;
}

absl::Status WithBadSampleAdvice(const absl::Status& error,
                                 const PipelineSpec& spec,
                                 absl::string_view flag) {
  if (!absl::IsDataLoss(error) || GetErrorDetail(error).sample() < 0 ||
      spec.bad_samples().action() != BadSamplePolicy::FAIL) {
    return error;
  }
  const std::string how =
      spec.preset().empty()
          ? absl::StrCat(
                "bad_samples { action: SUBSTITUTE } (or ZERO) in the "
                "file of ",
                flag)
          : absl::StrCat(flag, "=FILE with the text `preset: \"", spec.preset(),
                         "\" bad_samples { action: SUBSTITUTE }` (or ZERO)");
  return WithWords(
      WithoutPolicyHint(error), "",
      absl::StrCat("; ", kVerifyHint, "; to train without them: ", how));
}

}  // namespace millrace::trainer
