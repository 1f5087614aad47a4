#include "server/plan/plan.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "proto/error_detail.h"
#include "server/plan/content_revision.h"
#include "server/plan/keys.h"
#include "server/plan/plan_hash.h"
#include "server/plan/spec_limits.h"

namespace millrace::plan {
namespace {

// With DROP, an epoch leaves out the positions after its last whole batch. If
// the sources continue in the next epoch, no sample is lost: the epoch is made
// shorter instead.
uint64_t WholeBatches(const PipelineSpec& spec, uint64_t samples) {
  if (spec.last_batch() != LAST_BATCH_DROP) return samples;
  return samples - samples % spec.batch_size();
}

}  // namespace

absl::StatusOr<Plan> Plan::Create(const PipelineSpec& resolved,
                                  absl::Span<const DatasetInfo* const> infos,
                                  absl::string_view decoder_digest) {
  const int sources = resolved.sources_size();
  MR_CHECK(sources >= 1 && static_cast<size_t>(sources) == infos.size() &&
           resolved.preset().empty())
      << "the spec is not resolved";
  std::vector<SubsetCut> cuts;
  std::vector<uint64_t> starts;
  std::vector<std::string> fingerprints;
  uint64_t samples = 0;
  for (int i = 0; i < sources; ++i) {
    auto cut = SubsetCut::Create(resolved.sources(i), infos[i]->samples());
    if (!cut.ok()) {
      ErrorDetail detail = MakeErrorDetail("plan");
      detail.set_dataset(resolved.sources(i).dataset());
      return WithErrorDetail(cut.status(), detail);
    }
    starts.push_back(samples);
    samples += cut->size();
    cuts.push_back(*std::move(cut));
    fingerprints.push_back(infos[i]->fingerprint());
    if (sources > 1 && samples > kMaxEpochSamples) {
      return absl::InvalidArgumentError(
          absl::StrCat("the sources hold more than ", kMaxEpochSamples,
                       " samples together: use fewer sources"));
    }
  }
  const bool scheduled =
      (sources > 1 && !resolved.concatenate()) || resolved.epoch_samples() > 0;
  if (resolved.epoch_samples() > 0) samples = resolved.epoch_samples();
  MR_ASSIGN_OR_RETURN(EpochSteps steps,
                      EpochSteps::Create(samples, resolved.batch_size(),
                                         resolved.last_batch()));
  std::optional<SourceSchedule> schedule;
  if (scheduled) {
    samples = WholeBatches(resolved, samples);
    MR_ASSIGN_OR_RETURN(steps,
                        EpochSteps::Create(samples, resolved.batch_size(),
                                           resolved.last_batch()));
    std::vector<double> weights;
    for (const Source& source : resolved.sources()) {
      weights.push_back(source.weight());
    }
    MR_ASSIGN_OR_RETURN(schedule, SourceSchedule::Create(weights, samples));
  }
  Plan plan(resolved, steps);
  plan.cuts_ = std::move(cuts);
  plan.starts_ = std::move(starts);
  plan.schedule_ = std::move(schedule);
  plan.fingerprint_ = JoinFingerprints(fingerprints);
  if (DecodesImages(resolved)) {
    plan.decoder_digest_ = std::string(decoder_digest);
  }
  plan.hash_ = PlanHash(resolved, plan.fingerprint_, kContentRevision,
                        plan.decoder_digest_);
  return plan;
}

Plan::Epoch::Epoch(const Plan& plan, uint64_t epoch)
    : plan_(plan),
      key_(KeyHash(KeyDomain::kSample).Add(plan.spec_.seed()).Add(epoch)) {
  const PipelineSpec& spec = plan.spec_;
  if (!plan.schedule_) {
    order_.emplace(spec.shuffle(), spec.seed(), epoch, plan.steps_.samples());
    return;
  }
  schedule_.emplace(plan.schedule_->ForEpoch(
      spec.seed(), epoch, spec.shuffle().mode() != Shuffle::SEQUENTIAL));
  walks_.reserve(plan.cuts_.size());
  for (int i = 0; i < plan.sources(); ++i) {
    const uint64_t n = plan.samples(i);
    const uint64_t rows = plan.per_epoch(i);
    // Any epoch may be requested.
    const unsigned __int128 before =
        static_cast<unsigned __int128>(rows) * epoch;
    const auto visit = static_cast<uint64_t>(before / n);
    const auto start = static_cast<uint64_t>(before % n);
    const uint64_t seed = SourceSeed(spec.seed(), i);
    Walk& walk = walks_.emplace_back(
        Walk{seed, visit, start, EpochOrder(spec.shuffle(), seed, visit, n),
             std::nullopt});
    if (start + rows > n) {
      walk.next.emplace(spec.shuffle(), seed, visit + 1, n);
    }
  }
}

uint64_t Plan::Epoch::PlaceIn(int source, uint64_t visit, uint64_t j) const {
  const Walk& walk = walks_[source];
  if (visit == walk.visit) return walk.order.At(j);
  if (visit == walk.visit + 1) return walk.next->At(j);
  return EpochOrder(plan_.spec_.shuffle(), walk.seed, visit,
                    plan_.samples(source))
      .At(j);
}

SampleRef Plan::Epoch::At(uint64_t position) const {
  SampleRef ref;
  ref.position = position;
  if (position >= plan_.steps_.samples()) return ref;
  uint64_t j;  // index in the cut
  if (!schedule_) {
    j = order_->At(position);
    if (plan_.starts_.size() > 1) {
      const auto end =
          std::upper_bound(plan_.starts_.begin(), plan_.starts_.end(), j);
      ref.source = static_cast<uint32_t>(end - plan_.starts_.begin() - 1);
      j -= plan_.starts_[ref.source];
    }
  } else {
    const SourceSchedule::Place place = schedule_->At(position);
    ref.source = place.source;
    const Walk& walk = walks_[place.source];
    const uint64_t n = plan_.samples(static_cast<int>(place.source));
    // The sum is below 2^61.
    const uint64_t row = walk.start + place.row;
    const uint64_t visits = row < n ? 0 : row / n;
    ref.visit = walk.visit + visits;
    j = PlaceIn(static_cast<int>(place.source), ref.visit, row - visits * n);
  }
  ref.index = static_cast<int64_t>(plan_.cuts_[ref.source].IndexOf(j));
  ref.key = KeyOf(ref);
  ref.valid = true;
  return ref;
}

SampleRef Plan::Epoch::Substitute(const SampleRef& bad,
                                  uint64_t attempt) const {
  SampleRef ref = bad;
  const SubsetCut& cut = plan_.cuts_[bad.source];
  const uint64_t place = cut.PlaceOf(bad.index);
  const uint64_t n = cut.size();
  uint64_t further = attempt;
  if (attempt > kNeighbours) {
    const uint64_t turn = (attempt - kNeighbours) * kGolden64;  // of 2^64
    further =
        static_cast<uint64_t>(static_cast<unsigned __int128>(turn) * n >> 64);
  }
  ref.index = static_cast<int64_t>(cut.IndexOf((place + further) % n));
  ref.key = KeyOf(ref);
  return ref;
}

}  // namespace millrace::plan
