#include "server/plan/transforms/kinds.h"

namespace millrace::plan {
namespace {

void CheckTurns(const RandomRotation& rotation, TransformProblems& problems) {
  if (rotation.degrees_min() != 0 || rotation.degrees_max() != 0) return;
  AddProblem(problems, "degrees_max",
             "random_rotation by 0 degrees has no effect: write degrees_min "
             "and degrees_max (torchvision's degrees=d is -d .. d)");
}

}  // namespace

TransformKind RandomRotationKind() {
  TransformKind kind(Transform::kRandomRotation);
  kind.geometric = true;
  kind.Rule(&CheckTurns);
  kind.Range("degrees", {.low = -360, .high = 360, .left_out = "must be set"});
  kind.Resampling(INTERPOLATION_NEAREST);
  kind.Fill();
  kind.Probability(1);
  return kind;
}

}  // namespace millrace::plan
