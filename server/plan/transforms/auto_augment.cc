#include "absl/strings/str_cat.h"
#include "server/plan/transforms/kinds.h"

namespace millrace::plan {
namespace {

constexpr uint32_t kBins = 31;
constexpr uint32_t kMinBins = 2;
constexpr uint32_t kMagnitude = 9;

void MagnitudeBins(TransformKind& kind) {
  kind.Number("num_magnitude_bins", {.low = kMinBins,
                                     .high = 1001,
                                     .says = "$0 .. $1, or left out for $2",
                                     .otherwise = kBins});
}

void Rest(TransformKind& kind) {
  kind.image_alone = true;
  kind.one_or_three_channels = true;
  kind.Resampling(INTERPOLATION_NEAREST);
  kind.Fill();
  kind.Probability(1);
}

void CheckMagnitude(const RandAugment& augment, TransformProblems& problems) {
  const uint32_t bins =
      augment.has_num_magnitude_bins() ? augment.num_magnitude_bins() : kBins;
  if (bins < kMinBins) return;  // reported as num_magnitude_bins
  const uint32_t magnitude =
      augment.has_magnitude() ? augment.magnitude() : kMagnitude;
  if (magnitude < bins) return;
  AddProblem(problems, "magnitude",
             absl::StrCat("magnitude is ", magnitude,
                          ": it must be one of num_magnitude_bins = ", bins,
                          " strengths, 0 .. ", bins - 1));
}

}  // namespace

TransformKind TrivialAugmentWideKind() {
  TransformKind kind(Transform::kTrivialAugmentWide);
  MagnitudeBins(kind);
  Rest(kind);
  return kind;
}

TransformKind RandAugmentKind() {
  TransformKind kind(Transform::kRandAugment);
  kind.Number("num_ops", {.low = 1,
                          .high = 16,
                          .says = "$0 .. $1, or left out for $2",
                          .otherwise = 2});
  kind.Number("magnitude", {.otherwise = kMagnitude});
  MagnitudeBins(kind);
  kind.Rule(&CheckMagnitude);
  Rest(kind);
  return kind;
}

}  // namespace millrace::plan
