#include "server/pipeline/pixel_ops.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

std::string NameOf(const Transform& transform) {
  const auto* kind = transform.GetReflection()->GetOneofFieldDescriptor(
      transform, transform.GetDescriptor()->oneof_decl(0));
  return kind == nullptr ? "transform" : kind->name();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const PixelOp>> MakePixelOp(
    const PlacedTransform& placed, int channels,
    const ImageStageOptions& options) {
  static_cast<void>(channels);
  static_cast<void>(options);
  const Transform& transform = *placed.transform;
  switch (transform.kind_case()) {
    case Transform::kCustom:
      return absl::UnimplementedError(absl::StrCat(
          "custom (transform ", placed.place, "): the transform \"",
          transform.custom().name(), "\" is not built in this version"));
    default:
      return absl::UnimplementedError(
          absl::StrCat(NameOf(transform), " (transform ", placed.place,
                       "): it is not built in this version"));
  }
}

}  // namespace millrace
