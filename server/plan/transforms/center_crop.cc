#include "server/plan/transforms/kinds.h"

namespace millrace::plan {

TransformKind CenterCropKind() {
  TransformKind kind(Transform::kCenterCrop);
  kind.geometric = true;
  kind.Sides();
  kind.Trace(+[](const CenterCrop& crop, TracedField& field) {
    return field.Fix(crop.height(), crop.width());
  });
  return kind;
}

}  // namespace millrace::plan
