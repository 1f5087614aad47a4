#include "common/short_side.h"
#include "server/plan/transforms/kinds.h"

namespace millrace::plan {
namespace {

bool IsExact(const Resize& resize) {
  return resize.height() != 0 || resize.width() != 0;
}

bool Exactly(const TransformKind::Message& message) {
  const Resize& resize = static_cast<const Resize&>(message);
  return IsExact(resize) && resize.short_side() == 0;
}

bool ByShortSide(const TransformKind::Message& message) {
  return !IsExact(static_cast<const Resize&>(message));
}

void CheckOneOfTwo(const Resize& resize, TransformProblems& problems) {
  if (resize.short_side() == 0 || !IsExact(resize)) return;
  AddProblem(problems, "short_side",
             "short_side and height, width cannot be used together: remove "
             "short_side, or height and width");
}

absl::Status FixSize(const Resize& resize, TracedField& field) {
  if (resize.short_side() == 0) {
    return field.Fix(resize.height(), resize.width());
  }
  FieldTrace& trace = field.trace;
  if (trace.shape) {
    ResizeShortSide(resize.short_side(), (*trace.shape)[0], (*trace.shape)[1]);
    return absl::OkStatus();
  }
  field.short_side = resize.short_side();
  trace.why_not_fixed =
      "has images of different shapes after resize of the short side: add "
      "center_crop or random_resized_crop";
  return absl::OkStatus();
}

}  // namespace

TransformKind ResizeKind() {
  TransformKind kind(Transform::kResize);
  kind.geometric = true;
  kind.Rule(&CheckOneOfTwo);
  kind.Side("short_side", "–", &ByShortSide);
  kind.Side("height", "–", &Exactly);
  kind.Side("width", "–", &Exactly);
  kind.Resampling(INTERPOLATION_BILINEAR);
  kind.Plain("no_antialias", "false");
  kind.Trace(&FixSize);
  return kind;
}

}  // namespace millrace::plan
