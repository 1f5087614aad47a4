#include "server/plan/transforms/kinds.h"

namespace millrace::plan {
namespace {

void CheckMoves(const RandomAffine& affine, TransformProblems& problems) {
  const bool scales = (affine.has_scale_min() || affine.has_scale_max()) &&
                      !(affine.scale_min() == 1 && affine.scale_max() == 1);
  if (scales) return;
  for (double value :
       {affine.degrees_min(), affine.degrees_max(), affine.translate_x(),
        affine.translate_y(), affine.shear_x_min(), affine.shear_x_max(),
        affine.shear_y_min(), affine.shear_y_max()}) {
    if (value != 0) return;
  }
  AddProblem(problems, "",
             "random_affine without a range has no effect: write degrees, "
             "translate, scale or shear");
}

}  // namespace

TransformKind RandomAffineKind() {
  TransformKind kind(Transform::kRandomAffine);
  kind.geometric = true;
  kind.Range("degrees", {.low = -360, .high = 360, .left_out = "0, 0"});
  for (const char* name : {"translate_x", "translate_y"}) {
    kind.Number(name, {.high = 1,
                       .says = "the largest shift as a share of the side, "
                               "$0 .. $1",
                       .left_out = "0"});
  }
  kind.Range("scale", {.low = 0,
                       .high = 100,
                       .above = true,
                       .otherwise = {{1, 1}},
                       .left_out = "1"});
  // A shear of 90 degrees leaves nothing of the image.
  for (const char* name : {"shear_x", "shear_y"}) {
    kind.Range(name, {.low = -89, .high = 89, .left_out = "0, 0"});
  }
  kind.Rule(&CheckMoves);
  kind.Resampling(INTERPOLATION_NEAREST);
  kind.Fill();
  kind.Probability(1);
  return kind;
}

}  // namespace millrace::plan
