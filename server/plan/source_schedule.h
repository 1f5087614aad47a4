// SourceSchedule gives, for each position of an epoch in a weighted mixture,
// the source and the row of that source in the epoch: O(1) for each position,
// without state.
//
// An epoch is a sequence of blocks of `block_size()` positions. In every block
// source i has exactly slots(i) positions. A keyed permutation, different in
// each block, determines which. The remainder after the last whole block is a
// shorter block with the same shares, rounded. So every epoch takes exactly
// per_epoch(i) samples of source i, and any part of an epoch has the right
// shares to within two blocks' slots.
//
// Slots: share_i = weight_i / sum of weights. The block is the smallest block
// of at most kMaxBlockSlots slots in which all shares are whole numbers (to
// within 2^-40), repeated up to kUsualBlockSlots. If there is none, the block
// has kMaxBlockSlots slots, distributed by largest remainder in exact
// arithmetic.
//
// It does not know the samples; the plan maps a source's rows to samples
// (server/plan/plan.h). Immutable, thread-safe.
//
//   MR_ASSIGN_OR_RETURN(auto schedule, SourceSchedule::Create({3, 1}, 1000));
//   const SourceSchedule::Epoch epoch = schedule.ForEpoch(seed, 7, true);
//   const SourceSchedule::Place place = epoch.At(position);

#ifndef MILLRACE_SERVER_PLAN_SOURCE_SCHEDULE_H_
#define MILLRACE_SERVER_PLAN_SOURCE_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/plan/keys.h"
#include "server/plan/permutation.h"

namespace millrace::plan {

class SourceSchedule {
 public:
  static constexpr uint64_t kUsualBlockSlots = 1024;
  static constexpr uint64_t kMaxBlockSlots = uint64_t{1} << 16;

  // `weights`: one for each source, finite and above 0. `epoch_samples`: 1 ..
  // 2^60. InvalidArgument: a source has a share of less than a slot, or no
  // sample in an epoch; the message names it as sources[i].
  static absl::StatusOr<SourceSchedule> Create(absl::Span<const double> weights,
                                               uint64_t epoch_samples);

  int sources() const { return static_cast<int>(block_.size()) - 1; }
  uint64_t epoch_samples() const { return epoch_samples_; }
  uint64_t block_size() const { return block_.back(); }
  uint64_t slots(int source) const {
    return block_[source + 1] - block_[source];
  }
  // Samples of a source that every epoch takes.
  uint64_t per_epoch(int source) const {
    return blocks_ * slots(source) + rest_[source + 1] - rest_[source];
  }

  struct Place {
    uint32_t source = 0;
    uint64_t row = 0;  // of the source in this epoch, < per_epoch(source)
  };

  // Must not outlive the schedule.
  class Epoch {
   public:
    // `position` < epoch_samples().
    Place At(uint64_t position) const;

   private:
    friend class SourceSchedule;
    Epoch(const SourceSchedule& schedule, uint64_t seed, uint64_t epoch,
          bool shuffled);

    const SourceSchedule& schedule_;
    const KeyHash key_;
    // The permutations of the slots of a whole block, and of the remainder.
    // Absent: not shuffled; the sources of a block follow one another.
    std::optional<Permutation> order_;
    std::optional<Permutation> rest_order_;
  };

  Epoch ForEpoch(uint64_t seed, uint64_t epoch, bool shuffled) const {
    return Epoch(*this, seed, epoch, shuffled);
  }

 private:
  SourceSchedule() = default;

  uint64_t epoch_samples_ = 0;
  uint64_t blocks_ = 0;  // whole ones of an epoch
  // First slot of each source in a block, followed by the end; the same for the
  // remainder after the last whole block.
  std::vector<uint64_t> block_;
  std::vector<uint64_t> rest_;
};

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_SOURCE_SCHEDULE_H_
