// BatchGroups divides an epoch's batches into groups of --accumulate batches;
// each group is one optimiser step. Groups are aligned to the epoch's start,
// and the last one may be smaller.
//
// Immutable; any thread. No libtorch.
//
//   const BatchGroups groups(/*batches=*/10, /*accumulate=*/4);
//   groups.per_epoch();      // 3: of 4, 4 and 2 batches
//   groups.EndsAt(7);        // true
//   groups.Number(1, 8);     // 5: the third group of the second epoch

#ifndef MILLRACE_TRAINER_OPTIM_BATCH_GROUPS_H_
#define MILLRACE_TRAINER_OPTIM_BATCH_GROUPS_H_

#include <algorithm>
#include <cstdint>

namespace millrace::optim {

class BatchGroups {
 public:
  // `batches`: of an epoch. `accumulate`: at least 1.
  BatchGroups(uint64_t batches, uint64_t accumulate)
      : batches_(batches), accumulate_(accumulate) {}

  uint64_t accumulate() const { return accumulate_; }
  // Optimiser steps of an epoch.
  uint64_t per_epoch() const {
    return batches_ / accumulate_ + (batches_ % accumulate_ != 0 ? 1 : 0);
  }
  // `step`: number of a batch in its epoch.
  bool StartsAt(uint64_t step) const { return step % accumulate_ == 0; }
  bool EndsAt(uint64_t step) const {
    return StartsAt(step + 1) || step + 1 == batches_;
  }
  // Number of batches in the group of `step`.
  uint64_t SizeAt(uint64_t step) const {
    return std::min(accumulate_, batches_ - step / accumulate_ * accumulate_);
  }
  // Number, since the job's first start, of the optimiser step that `step` of
  // `epoch` belongs to.
  uint64_t Number(uint64_t epoch, uint64_t step) const {
    return epoch * per_epoch() + step / accumulate_;
  }

 private:
  const uint64_t batches_;
  const uint64_t accumulate_;
};

}  // namespace millrace::optim

#endif  // MILLRACE_TRAINER_OPTIM_BATCH_GROUPS_H_
