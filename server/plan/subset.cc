#include "server/plan/subset.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "server/plan/keys.h"

namespace millrace {

uint64_t SubsetBound(double fraction, uint64_t n) {
  MR_CHECK(fraction >= 0 && fraction <= 1);
  if (fraction == 0) return 0;
  // fraction = mantissa * 2^-shift with a mantissa of 53 bits: the product
  // with n takes 115 bits at most.
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

absl::StatusOr<SubsetCut> SubsetCut::Create(const Source& source, uint64_t n) {
  if (!source.has_subset()) return SubsetCut(0, n);
  const Subset& subset = source.subset();
  // Written so that NaN fails too.
  if (!(subset.from() >= 0 && subset.from() < subset.to() &&
        subset.to() <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the subset of ", source.dataset(), " runs from ", subset.from(),
        " to ", subset.to(), ": write bounds with 0 <= from < to <= 1"));
  }
  SubsetCut cut(SubsetBound(subset.from(), n), SubsetBound(subset.to(), n));
  if (cut.size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the subset of ", source.dataset(), " from ", subset.from(), " to ",
        subset.to(), " holds none of its ", n, " samples: take wider bounds"));
  }
  if (cut.size() < n) cut.ranks_.emplace(SubsetKey(subset.seed(), n), n);
  return cut;
}

}  // namespace millrace
