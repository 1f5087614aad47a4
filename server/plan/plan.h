// Plan is everything that a batch depends on: a resolved spec over the content
// of its sources. For every (epoch, step, rank, world size) it gives the sample
// of each row, in O(1) and without state.
//
// One source, or several as one (`concatenate`): an epoch has every sample of
// all sources once, in one order over the concatenated sources.
//
// A weighted mixture, or a source with epochs of another length: every source
// is traversed endlessly, visit after visit. Each visit has an order of its
// own, which contains every sample once. An epoch takes the next per_epoch(i)
// samples of source i, at the positions that the schedule gives
// (server/plan/source_schedule.h).
//
// It reads no sample and owns no thread. Immutable, thread-safe.
//
//   MR_ASSIGN_OR_RETURN(Plan plan, Plan::Create(resolved, {&info}));
//   MR_ASSIGN_OR_RETURN(StepRows rows, plan.steps().Rows(step, rank, world));
//   const Plan::Epoch epoch = plan.ForEpoch(3);
//   for (uint64_t r = 0; r < rows.rows; ++r) Use(epoch.At(rows.first + r));

#ifndef MILLRACE_SERVER_PLAN_PLAN_H_
#define MILLRACE_SERVER_PLAN_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/plan/epoch_order.h"
#include "server/plan/epoch_steps.h"
#include "server/plan/keys.h"
#include "server/plan/source_schedule.h"
#include "server/plan/subset.h"

namespace millrace::plan {

// The sample of a row. `key` determines its augmentation.
struct SampleRef {
  int64_t index = -1;     // logical index in the source's dataset; -1: padding
  uint64_t position = 0;  // in the epoch's global order
  uint64_t key = 0;
  // In a weighted mixture: the number of the visit to the source, from 0;
  // otherwise 0.
  uint64_t visit = 0;
  uint32_t source = 0;  // index into spec.sources
  bool valid = false;   // false: padding
};

class Plan {
 public:
  // `resolved` comes from ResolveSpec over the same `infos`, one for each
  // source. InvalidArgument: an empty subset, fewer samples than a batch with
  // DROP, a source with too small a share, too many samples. `decoder_digest`:
  // hash of what the image decoders make of images; empty: unknown.
  static absl::StatusOr<Plan> Create(const PipelineSpec& resolved,
                                     absl::Span<const DatasetInfo* const> infos,
                                     absl::string_view decoder_digest = "");
  static absl::StatusOr<Plan> Create(const PipelineSpec& resolved,
                                     const DatasetInfo& info,
                                     absl::string_view decoder_digest = "") {
    return Create(resolved, {&info}, decoder_digest);
  }

  const PipelineSpec& spec() const { return spec_; }
  const EpochSteps& steps() const { return steps_; }
  const std::string& fingerprint() const { return fingerprint_; }
  const std::string& hash() const { return hash_; }
  // Set for a plan that decodes images; otherwise empty.
  const std::string& decoder_digest() const { return decoder_digest_; }

  int sources() const { return static_cast<int>(cuts_.size()); }
  // Samples of a source after its subset.
  uint64_t samples(int source) const { return cuts_[source].size(); }
  // Samples of the source that every epoch takes (without a schedule: before
  // DROP leaves some out).
  uint64_t per_epoch(int source) const {
    return schedule_ ? schedule_->per_epoch(source) : samples(source);
  }
  // Present for a weighted mixture, or a source with epochs of another length.
  const std::optional<SourceSchedule>& schedule() const { return schedule_; }

  static constexpr uint64_t kNeighbours = 16;
  static constexpr uint64_t kMaxSubstitutes = 256;

  // The order of one epoch. Cheap to create, but not for every row. Must not
  // outlive the plan.
  class Epoch {
   public:
    SampleRef At(uint64_t position) const;

    // The sample that replaces the damaged sample `bad` at try `attempt` (1 to
    // kMaxSubstitutes). The first kNeighbours tries take the next samples in
    // the cut of its source, wrapping around. Later tries leave a long run of
    // damage: try kNeighbours + k takes the sample that is further in the cut
    // by the fractional part of k / golden ratio of its size, which spreads the
    // tries evenly over the cut. The result does not depend on epoch and
    // position.
    SampleRef Substitute(const SampleRef& bad, uint64_t attempt) const;

   private:
    friend class Plan;
    Epoch(const Plan& plan, uint64_t epoch);

    // One source of a weighted mixture.
    struct Walk {
      uint64_t seed;   // of its orders
      uint64_t visit;  // in which the epoch begins
      uint64_t start;  // place in that visit
      // Orders of that visit and the next one; most epochs need no others.
      EpochOrder order;
      std::optional<EpochOrder> next;
    };

    // The index of the j-th sample of the source's cut in the order of a visit.
    uint64_t PlaceIn(int source, uint64_t visit, uint64_t j) const;
    uint64_t KeyOf(const SampleRef& ref) const {
      return key_.Add(ref.source).Add(ref.index).Add(ref.visit).value();
    }

    const Plan& plan_;
    const KeyHash key_;                // of samples, after seed and epoch
    std::optional<EpochOrder> order_;  // of an epoch without a schedule
    std::optional<SourceSchedule::Epoch> schedule_;
    std::vector<Walk> walks_;  // with a schedule: of each source
  };

  Epoch ForEpoch(uint64_t epoch) const { return Epoch(*this, epoch); }

 private:
  Plan(PipelineSpec spec, EpochSteps steps)
      : spec_(std::move(spec)), steps_(steps) {}

  PipelineSpec spec_;
  EpochSteps steps_;
  std::vector<SubsetCut> cuts_;  // of each source
  // Without a schedule: the first place of each source in the concatenated
  // order.
  std::vector<uint64_t> starts_;
  std::optional<SourceSchedule> schedule_;
  std::string fingerprint_;
  std::string decoder_digest_;
  std::string hash_;
};

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_PLAN_H_
