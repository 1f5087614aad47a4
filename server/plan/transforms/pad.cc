#include "absl/strings/str_cat.h"
#include "server/plan/spec_limits.h"
#include "server/plan/transforms/kinds.h"
#include "server/plan/transforms/padding.h"

namespace millrace::plan {
namespace {

void CheckPad(const Pad& pad, TransformProblems& problems) {
  CheckFilling(pad, /*pads=*/true, problems);
}

absl::Status Grow(const Pad& pad, TracedField& field) {
  return GrowByPadding(pad.padding(), field);
}

}  // namespace

TransformKind PadKind() {
  TransformKind kind(Transform::kPad);
  kind.geometric = true;
  kind.Padding(/*may_be_empty=*/false, "must be set");
  kind.Levels("fill");
  kind.Rule(&CheckPad);
  kind.Default(+[](Pad& pad) { WriteFill(pad, /*pads=*/true); });
  kind.Plain("padding_mode", "`PADDING_CONSTANT`");
  kind.Trace(&Grow);
  return kind;
}

absl::Status GrowByPadding(
    const google::protobuf::RepeatedField<uint32_t>& padding,
    TracedField& field) {
  if (padding.empty()) return absl::OkStatus();
  // Left, top, right, bottom. With fewer values, one value applies to several
  // sides.
  const auto side = [&](int i) -> int64_t {
    return padding[padding.size() == 4 ? i : i % padding.size()];
  };
  if (!field.trace.shape) {
    // With unequal paddings, the other side may be the shorter one.
    const int64_t more = side(0) + side(2);
    if (more != side(1) + side(3)) field.short_side.reset();
    if (field.short_side) *field.short_side += more;
    return absl::OkStatus();
  }
  int64_t& height = (*field.trace.shape)[0];
  int64_t& width = (*field.trace.shape)[1];
  width += side(0) + side(2);
  height += side(1) + side(3);
  if (height > kMaxSpecSide || width > kMaxSpecSide) {
    return field.Refuse(absl::StrCat("is ", height, " x ", width,
                                     " pixels with this padding: each side is "
                                     "at most ",
                                     kMaxSpecSide));
  }
  return absl::OkStatus();
}

}  // namespace millrace::plan
