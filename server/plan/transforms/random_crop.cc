#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/plan/transforms/kinds.h"
#include "server/plan/transforms/padding.h"

namespace millrace::plan {
namespace {

bool Pads(const RandomCrop& crop) {
  return crop.padding_size() > 0 || crop.pad_if_needed();
}

void CheckRandomCrop(const RandomCrop& crop, TransformProblems& problems) {
  CheckFilling(crop, Pads(crop), problems);
}

absl::Status FixSize(const RandomCrop& crop, TracedField& field) {
  MR_RETURN_IF_ERROR(GrowByPadding(crop.padding(), field));
  const auto& shape = field.trace.shape;
  if (!crop.pad_if_needed() && shape &&
      ((*shape)[0] < crop.height() || (*shape)[1] < crop.width())) {
    return field.Refuse(absl::StrCat(
        "has images of ", (*shape)[0], " x ", (*shape)[1],
        " (with padding), smaller than the crop window of ", crop.height(),
        " x ", crop.width(), ": add padding, or pad_if_needed: true"));
  }
  if (!crop.pad_if_needed() && !shape && field.short_side &&
      std::min(crop.height(), crop.width()) > *field.short_side) {
    return field.Refuse(
        absl::StrCat("has images whose shorter side is ", *field.short_side,
                     " pixels (with padding), smaller than the crop window of ",
                     crop.height(), " x ", crop.width(),
                     ": add padding, or pad_if_needed: true"));
  }
  return field.Fix(crop.height(), crop.width());
}

}  // namespace

TransformKind RandomCropKind() {
  TransformKind kind(Transform::kRandomCrop);
  kind.geometric = true;
  kind.Sides();
  kind.Padding(/*may_be_empty=*/true, "none");
  kind.Plain("pad_if_needed", "false: a smaller image is a bad sample");
  kind.Levels("fill");
  kind.Rule(&CheckRandomCrop);
  kind.Default(+[](RandomCrop& crop) { WriteFill(crop, Pads(crop)); });
  kind.Plain("padding_mode", "`PADDING_CONSTANT`");
  kind.Probability(1, "1; otherwise the middle window");
  kind.Trace(&FixSize);
  return kind;
}

}  // namespace millrace::plan
