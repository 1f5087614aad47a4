// SubsetCut is the part [from, to) of one dataset. Sample i belongs to the cut
// if its rank in the permutation keyed by the subset's seed is in [Bound(from),
// Bound(to)), Bound(x) = floor(x * N + 1/2) in exact arithmetic. So cuts with
// the same seed and touching bounds are disjoint and complete, and 0.8 of 10
// samples are 8.
//
// With a unit of U > 1 samples, runs of U neighbours are ranked instead of
// samples, and N is the number of runs. Neighbours stay together, as BLOCK
// order needs it. The last run of the dataset may be shorter; it comes last in
// the cut, so that every other run begins at a multiple of U.
//
// The cut does not depend on the spec's seed and the epoch, so a validation
// sample never moves into the training cut. Immutable, thread-safe, O(1) for
// each sample.
//
//   MR_ASSIGN_OR_RETURN(SubsetCut cut, SubsetCut::Create(source, n));
//   for (uint64_t j = 0; j < cut.size(); ++j) Use(cut.IndexOf(j));

#ifndef MILLRACE_SERVER_PLAN_SUBSET_H_
#define MILLRACE_SERVER_PLAN_SUBSET_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/plan/permutation.h"

namespace millrace::plan {

// floor(fraction * n + 1/2), exactly; `fraction` is 0 .. 1, n <= 2^62.
uint64_t SubsetBound(double fraction, uint64_t n);

// The upper bound of `subset`: 1 if `to` is absent and `from` is above 0, else
// `to`. If both are left out, a program may have computed a share of 0, so this
// is refused and does not mean the whole dataset.
double SubsetEnd(const Subset& subset);

// Empty, or what is wrong with the bounds and how to correct it.
std::string WhySubsetIsWrong(const Subset& subset);

class SubsetCut {
 public:
  // The whole dataset if the source names no subset. InvalidArgument: the
  // bounds are in the wrong order or outside 0 .. 1, or no sample is between
  // them.
  static absl::StatusOr<SubsetCut> Create(const Source& source, uint64_t n);

  uint64_t size() const { return size_; }

  // Logical index of the cut's j-th sample, j < size(), in the order of the
  // ranks. If the cut is the whole dataset, in the order of the dataset.
  uint64_t IndexOf(uint64_t j) const {
    if (unit_ > 1) return IndexInRuns(j);
    return ranks_ ? ranks_->Inverse(from_ + j) : from_ + j;
  }

  // The j of a logical index in the cut; size() or more for an index outside
  // it.
  uint64_t PlaceOf(uint64_t index) const {
    if (unit_ > 1) return PlaceInRuns(index);
    // A rank below from_ wraps around to a huge number.
    return (ranks_ ? ranks_->At(index) : index) - from_;
  }

  bool whole() const { return !ranks_.has_value(); }

 private:
  SubsetCut(uint64_t from, uint64_t to)
      : from_(from), count_(to - from), size_(to - from) {}

  uint64_t IndexInRuns(uint64_t j) const;
  uint64_t PlaceInRuns(uint64_t index) const;

  // In samples or, with a unit, in runs.
  uint64_t from_;
  uint64_t count_;
  uint64_t size_;                     // in samples
  std::optional<Permutation> ranks_;  // absent: the whole dataset
  uint64_t unit_ = 1;
  // Rank of the shorter run relative to `from_`; count_: the cut has no shorter
  // run.
  uint64_t short_rank_ = 0;
};

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_SUBSET_H_
