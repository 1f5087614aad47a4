#include "server/pipeline/pixel_ops.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/operators/operators.h"
#include "server/pipeline/operator_transform.h"
#include "server/pipeline/read_affine.h"
#include "server/pipeline/read_color.h"

namespace millrace {
namespace {

std::string NameOf(const Transform& transform) {
  const auto* kind = transform.GetReflection()->GetOneofFieldDescriptor(
      transform, transform.GetDescriptor()->oneof_decl(0));
  return kind == nullptr ? "transform" : kind->name();
}

absl::StatusOr<std::unique_ptr<const PixelOp>> MakeCustom(
    const PlacedTransform& placed, int channels,
    const ImageStageOptions& options) {
  const CustomTransform& custom = placed.transform->custom();
  const Operators::Transform* const transform =
      options.operators == nullptr
          ? nullptr
          : options.operators->FindTransform(custom.name());
  if (transform == nullptr ||
      transform->functions.works_on != MILLRACE_ON_IMAGE) {
    return absl::InvalidArgumentError(
        absl::StrCat("custom (transform ", placed.place,
                     "): there is no transform \"", custom.name(),
                     "\" on images among the operators"));
  }
  return MakeOperatorPixelOp(*transform, custom, placed.place, channels);
}

}  // namespace

absl::StatusOr<std::unique_ptr<const PixelOp>> MakePixelOp(
    const PlacedTransform& placed, int channels,
    const ImageStageOptions& options) {
  const Transform& transform = *placed.transform;
  if (IsColor(transform)) return ReadColor(placed, channels);
  if (IsAffine(transform)) {
    MR_ASSIGN_OR_RETURN(const RandomAffineOptions affine,
                        ReadAffine(placed, channels, options));
    return MakeRandomAffine(affine);
  }
  if (IsAutoAugment(transform)) {
    MR_ASSIGN_OR_RETURN(const AutoAugmentOptions augment,
                        ReadAutoAugment(placed, channels, options));
    return MakeAutoAugment(augment);
  }
  switch (transform.kind_case()) {
    case Transform::kCustom:
      return MakeCustom(placed, channels, options);
    default:
      return absl::UnimplementedError(
          absl::StrCat(NameOf(transform), " (transform ", placed.place,
                       "): it is not built in this version"));
  }
}

}  // namespace millrace
