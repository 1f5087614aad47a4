// SubsetCut is the part [from, to) of one dataset: sample i belongs to it when
// its rank in the permutation keyed by the subset's seed lies in
// [Bound(from), Bound(to)), Bound(x) = floor(x * N + 1/2) in exact arithmetic.
// Cuts with the same seed and touching bounds are therefore disjoint and
// complete, and 0.8 of 10 samples are 8.
//
// With a unit of U > 1 samples it is runs of U neighbours that are ranked (the
// last one of the dataset may be shorter), with their number instead of N:
// neighbours stay together, as BLOCK order needs it. A shorter run stands last
// in the cut, so that every other one begins at a multiple of U.
//
// The spec's seed and the epoch take no part: a validation sample never
// wanders into the training cut. Immutable, thread-safe, O(1) per sample.
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

namespace millrace {

// floor(fraction * n + 1/2), exactly; `fraction` is 0 .. 1, n <= 2^62.
uint64_t SubsetBound(double fraction, uint64_t n);

// The upper bound that `subset` stands for: 1 where `to` is left out beside a
// `from` above 0, else `to`. (Where neither is given, a program may have
// computed a share of 0: that is refused and not taken for the whole dataset.)
double SubsetEnd(const Subset& subset);

// Empty, or what is wrong with the bounds and what to write.
std::string WhySubsetIsWrong(const Subset& subset);

class SubsetCut {
 public:
  // The whole dataset when the source names no subset. InvalidArgument: bounds
  // out of order or of 0 .. 1, or no sample lies between them.
  static absl::StatusOr<SubsetCut> Create(const Source& source, uint64_t n);

  uint64_t size() const { return size_; }

  // Logical index of the cut's j-th sample, j < size(). The order is that of
  // the ranks; that of the dataset when the cut is the whole of it.
  uint64_t IndexOf(uint64_t j) const {
    if (unit_ > 1) return IndexInRuns(j);
    return ranks_ ? ranks_->Inverse(from_ + j) : from_ + j;
  }

  // The j of a logical index that is in the cut; size() or more otherwise.
  uint64_t PlaceOf(uint64_t index) const {
    if (unit_ > 1) return PlaceInRuns(index);
    // A rank below from_ wraps round to a huge number.
    return (ranks_ ? ranks_->At(index) : index) - from_;
  }

  bool whole() const { return !ranks_.has_value(); }

 private:
  SubsetCut(uint64_t from, uint64_t to)
      : from_(from), count_(to - from), size_(to - from) {}

  uint64_t IndexInRuns(uint64_t j) const;
  uint64_t PlaceInRuns(uint64_t index) const;

  // Of samples or, with a unit, of runs.
  uint64_t from_;
  uint64_t count_;
  uint64_t size_;                     // in samples
  std::optional<Permutation> ranks_;  // absent: the whole dataset
  uint64_t unit_ = 1;
  // Of the run that is shorter, from `from_`; count_: it is not in the cut, or
  // there is none.
  uint64_t short_rank_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_SUBSET_H_
