#include "server/plan/transforms/kinds.h"

namespace millrace::plan {
namespace {

void CheckChanges(const ColorJitter& jitter, TransformProblems& problems) {
  // A factor of 0 .. 0 is black, or grey. A hue of 0 .. 0 changes nothing.
  if (jitter.has_brightness_min() || jitter.has_brightness_max() ||
      jitter.has_contrast_min() || jitter.has_contrast_max() ||
      jitter.has_saturation_min() || jitter.has_saturation_max() ||
      jitter.hue_min() != 0 || jitter.hue_max() != 0) {
    return;
  }
  AddProblem(
      problems, "",
      "color_jitter without a range has no effect: write brightness_min and "
      "brightness_max, or the fields of contrast, saturation or hue "
      "(torchvision's brightness=b is 1 - b .. 1 + b, its hue=h is -h .. h)");
}

}  // namespace

TransformKind ColorJitterKind() {
  TransformKind kind(Transform::kColorJitter);
  kind.one_or_three_channels = true;
  RangeBounds factor = {.high = 100,
                        .left_out = "not changed",
                        .instead = "neither to leave it as it is"};
  for (const char* name : {"brightness", "contrast", "saturation"}) {
    kind.Range(name, factor);
  }
  RangeBounds shift = factor;
  shift.low = -0.5;
  shift.high = 0.5;
  kind.Range("hue", shift);
  kind.Rule(&CheckChanges);
  kind.Probability(1);
  return kind;
}

}  // namespace millrace::plan
