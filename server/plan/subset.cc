#include "server/plan/subset.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "server/plan/keys.h"

namespace millrace::plan {

uint64_t SubsetBound(double fraction, uint64_t n) {
  MR_CHECK(fraction >= 0 && fraction <= 1);
  if (fraction == 0) return 0;
  // fraction = mantissa * 2^-shift with a mantissa of 53 bits, so the product
  // with n has at most 115 bits.
  int exponent;
  const double half_to_one = std::frexp(fraction, &exponent);
  const auto mantissa = static_cast<uint64_t>(std::ldexp(half_to_one, 53));
  const int shift = 53 - exponent;  // at least 52
  const unsigned __int128 product =
      static_cast<unsigned __int128>(mantissa) * n;
  if (shift > 120) return 0;  // far below one half of a sample
  const unsigned __int128 half = static_cast<unsigned __int128>(1)
                                 << (shift - 1);
  return static_cast<uint64_t>((product + half) >> shift);
}

double SubsetEnd(const Subset& subset) {
  return !subset.has_to() && subset.from() > 0 ? 1 : subset.to();
}

std::string WhySubsetIsWrong(const Subset& subset) {
  const double to = SubsetEnd(subset);
  // Written so that NaN fails, too.
  if (subset.from() >= 0 && subset.from() < to && to <= 1) return "";
  if (subset.from() == 0 && !subset.has_to()) {
    return "the subset has no bounds: write from, to or both, with 0 <= from < "
           "to <= 1, or remove the subset";
  }
  return absl::StrCat("the subset is from ", subset.from(), " to ", to,
                      ": write bounds with 0 <= from < to <= 1");
}

absl::StatusOr<SubsetCut> SubsetCut::Create(const Source& source, uint64_t n) {
  if (!source.has_subset()) return SubsetCut(0, n);
  const Subset& subset = source.subset();
  if (const std::string why = WhySubsetIsWrong(subset); !why.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("dataset ", source.dataset(), ": ", why));
  }
  const double to = SubsetEnd(subset);
  const uint64_t unit = std::max<uint64_t>(1, subset.unit());
  const uint64_t runs = (n - 1) / unit + 1;
  SubsetCut cut(SubsetBound(subset.from(), runs), SubsetBound(to, runs));
  if (cut.count_ == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the subset of ", source.dataset(), " from ", subset.from(), " to ", to,
        " contains none of its ", n, " samples",
        unit == 1 ? "" : absl::StrCat(" in ", runs, " runs of ", unit),
        ": widen the bounds"));
  }
  if (cut.count_ == runs) {
    cut.size_ = n;
    return cut;
  }
  if (unit == 1) {
    cut.ranks_.emplace(SubsetKey(subset.seed(), n), n);
    return cut;
  }
  cut.unit_ = unit;
  cut.ranks_.emplace(SubsetRunsKey(subset.seed(), n, unit), runs);
  cut.short_rank_ = cut.count_;
  cut.size_ = cut.count_ * unit;
  const uint64_t short_rank = cut.ranks_->At(runs - 1) - cut.from_;
  if (const uint64_t rest = n % unit; rest != 0 && short_rank < cut.count_) {
    cut.short_rank_ = short_rank;
    cut.size_ -= unit - rest;
  }
  return cut;
}

uint64_t SubsetCut::IndexInRuns(uint64_t j) const {
  uint64_t rank = j / unit_;
  const uint64_t offset = j - rank * unit_;
  if (rank >= short_rank_) rank = rank == count_ - 1 ? short_rank_ : rank + 1;
  return ranks_->Inverse(from_ + rank) * unit_ + offset;
}

uint64_t SubsetCut::PlaceInRuns(uint64_t index) const {
  const uint64_t run = index / unit_;
  const uint64_t rank = ranks_->At(run) - from_;
  if (rank >= count_) return size_;  // or below from_
  uint64_t place = rank;
  if (rank == short_rank_) {
    place = count_ - 1;
  } else if (rank > short_rank_) {
    --place;
  }
  return place * unit_ + (index - run * unit_);
}

}  // namespace millrace::plan
