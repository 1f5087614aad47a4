#include "trainer/subset_flag.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/count_text.h"

namespace millrace::trainer {
namespace {

// A double holds whole numbers exactly up to here.
constexpr double kMaxSamples = 9007199254740992;  // 2^53

bool IsShare(absl::string_view bound) {
  return absl::StrContains(bound, '.') || absl::EndsWith(bound, "%");
}

// -1: not a number.
double Number(absl::string_view bound, bool shares) {
  const bool percent = absl::ConsumeSuffix(&bound, "%");
  double value = -1;
  uint64_t count = 0;
  if (shares) {
    if (!absl::SimpleAtod(bound, &value) || !std::isfinite(value)) return -1;
    return percent ? value / 100 : value;
  }
  if (!absl::SimpleAtoi(bound, &count)) return -1;
  return static_cast<double>(count);
}

}  // namespace

absl::StatusOr<SubsetFlag> ParseSubsetFlag(absl::string_view flag,
                                           absl::string_view text) {
  const std::vector<absl::string_view> bounds = absl::StrSplit(text, ':');
  SubsetFlag subset;
  subset.flag = std::string(flag);
  subset.text = std::string(text);
  if (bounds.size() == 2 && Number(bounds[0], false) == 0 &&
      Number(bounds[1], false) == 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--", flag, "=", text,
        " is one sample, because whole numbers count samples; write shares "
        "with a point or a per cent sign (0:1.0 or 0%:100% is the whole "
        "dataset), or name more than one sample"));
  }
  if (bounds.size() == 2) {
    subset.shares = IsShare(bounds[0]) || IsShare(bounds[1]);
    subset.from = Number(bounds[0], subset.shares);
    subset.to = Number(bounds[1], subset.shares);
    if (subset.from >= 0 && subset.from < subset.to &&
        subset.to <= (subset.shares ? 1 : kMaxSamples)) {
      return subset;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", text,
                   ": expected FROM:TO with FROM below TO, both in samples "
                   "(48000:60000) or both as shares (0.8:1.0 or 80%:100%)"));
}

absl::StatusOr<Subset> SubsetFlag::Of(const std::string& dataset,
                                      uint64_t samples) const {
  Subset subset;
  const auto n = static_cast<double>(samples);
  if (!shares && to > n) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--", flag, "=", text, " ends after the ", CountText(samples, "sample"),
        " of ", dataset, "; end at ", samples, " or before"));
  }
  subset.set_from(shares ? from : from / n);
  subset.set_to(shares ? to : to / n);
  return subset;
}

absl::StatusOr<Subset> RestOf(const Subset& part, const SubsetFlag& flag) {
  Subset rest = part;
  if (part.from() > 0 && part.to() == 1) {
    rest.set_from(0);
    rest.set_to(part.from());
    return rest;
  }
  if (part.from() == 0 && part.to() < 1) {
    rest.set_from(part.to());
    rest.set_to(1);
    return rest;
  }
  if (part.from() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag.flag, "=", flag.text,
                     " is the whole dataset and leaves no samples for "
                     "training; choose a part, or give --train_subset"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag.flag, "=", flag.text,
                   " leaves two pieces of the dataset; choose the samples to "
                   "train on with --train_subset=FROM:TO"));
}

bool Overlap(const Subset& a, const Subset& b) {
  // Parts cut in different ways cannot be compared: each uses its own
  // permutation.
  if (a.seed() != b.seed() || a.unit() != b.unit()) return true;
  return std::max(a.from(), b.from()) < std::min(a.to(), b.to());
}

}  // namespace millrace::trainer
