#include "server/plan/transforms/kinds.h"

namespace millrace::plan {

TransformKind RandomResizedCropKind() {
  TransformKind kind(Transform::kRandomResizedCrop);
  kind.geometric = true;
  kind.Sides();
  kind.Range("scale", {.low = 0,
                       .high = 1,
                       .above = true,
                       .otherwise = {{0.08, 1}},
                       .left_out = "0.08 .. 1"});
  kind.Range("ratio", {.low = 0.01,
                       .high = 100,
                       .otherwise = {{3.0 / 4.0, 4.0 / 3.0}},
                       .left_out = "3/4 .. 4/3"});
  kind.Resampling(INTERPOLATION_BILINEAR);
  kind.Plain("no_antialias", "false");
  kind.Probability(1, "1; otherwise the whole image is resized");
  // Version 1 first had no p.
  kind.Default(+[](RandomResizedCrop& crop) {
    if (crop.p() == 1) crop.clear_p();
  });
  kind.Trace(+[](const RandomResizedCrop& crop, TracedField& field) {
    return field.Fix(crop.height(), crop.width());
  });
  return kind;
}

}  // namespace millrace::plan
