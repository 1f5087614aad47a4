// Plan is what a batch is a function of: a resolved spec over the content of
// its dataset. It says for every (epoch, step, rank, world size) which samples
// come in which row, each in O(1) and with no state.
//
// It reads no sample and owns no thread. Immutable, thread-safe.
//
//   MR_ASSIGN_OR_RETURN(Plan plan, Plan::Create(resolved, info));
//   MR_ASSIGN_OR_RETURN(StepRows rows, plan.steps().Rows(step, rank, world));
//   const Plan::Epoch epoch = plan.ForEpoch(3);
//   for (uint64_t r = 0; r < rows.rows; ++r) Use(epoch.At(rows.first + r));

#ifndef MILLRACE_SERVER_PLAN_PLAN_H_
#define MILLRACE_SERVER_PLAN_PLAN_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/plan/epoch_order.h"
#include "server/plan/keys.h"
#include "server/plan/steps.h"
#include "server/plan/subset.h"

namespace millrace {

// Which sample a row holds; the key fixes its augmentation.
struct SampleRef {
  int64_t index = -1;     // logical index in the source's dataset; -1: padding
  uint64_t position = 0;  // in the epoch's global order
  uint64_t key = 0;
  uint32_t source = 0;  // index into spec.sources
  uint32_t visit = 0;   // of this sample in this epoch, from 0
  bool valid = false;   // false: padding
};

class Plan {
 public:
  // `resolved` comes from ResolveSpec over the same `info`. InvalidArgument:
  // an empty subset, or fewer samples than a batch with DROP.
  static absl::StatusOr<Plan> Create(const PipelineSpec& resolved,
                                     const DatasetInfo& info);

  const PipelineSpec& spec() const { return spec_; }
  const StepTable& steps() const { return steps_; }
  const std::string& fingerprint() const { return fingerprint_; }
  const std::string& hash() const { return hash_; }

  // The order of one epoch. Cheap to make, but not for every row. Must not
  // outlive the plan.
  class Epoch {
   public:
    SampleRef At(uint64_t position) const {
      SampleRef ref;
      ref.position = position;
      if (position >= cut_.size()) return ref;
      ref.index = static_cast<int64_t>(cut_.IndexOf(order_.At(position)));
      ref.key = KeyOf(ref.index);
      ref.valid = true;
      return ref;
    }

    // What stands in for the damaged sample `index` at the `attempt`-th try
    // (from 1): the sample that lies `attempt` places further in the cut,
    // wrapping round. The same for every epoch and position.
    SampleRef Substitute(const SampleRef& bad, uint64_t attempt) const {
      SampleRef ref = bad;
      const uint64_t place = cut_.PlaceOf(bad.index);
      ref.index =
          static_cast<int64_t>(cut_.IndexOf((place + attempt) % cut_.size()));
      ref.key = KeyOf(ref.index);
      return ref;
    }

   private:
    friend class Plan;
    Epoch(const Plan& plan, uint64_t epoch)
        : cut_(plan.cut_),
          order_(plan.spec_.shuffle(), plan.spec_.seed(), epoch,
                 plan.cut_.size()),
          sample_key_(KeyHash(KeyDomain::kSample)
                          .Add(plan.spec_.seed())
                          .Add(epoch)
                          .Add(0)) {}

    uint64_t KeyOf(int64_t index) const {
      return sample_key_.Add(index).Add(/*visit=*/0).value();
    }

    const SubsetCut& cut_;
    const EpochOrder order_;
    const KeyHash sample_key_;  // after seed, epoch and source
  };

  Epoch ForEpoch(uint64_t epoch) const { return Epoch(*this, epoch); }

 private:
  Plan(PipelineSpec spec, SubsetCut cut, StepTable steps)
      : spec_(std::move(spec)), cut_(std::move(cut)), steps_(steps) {}

  PipelineSpec spec_;
  SubsetCut cut_;
  StepTable steps_;
  std::string fingerprint_;
  std::string hash_;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_PLAN_H_
