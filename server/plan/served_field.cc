#include "server/plan/served_field.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/plan/image_field.h"
#include "server/plan/transforms/transforms.h"

namespace millrace::plan {
namespace {

bool IsTensorOperator(const Transform& transform) {
  return transform.custom().result_dtype() != DTYPE_UNSPECIFIED;
}

// Computes new values between the pixels of the image.
bool Interpolates(const Transform& transform) {
  if (transform.has_resize()) {
    return transform.resize().interpolation() != INTERPOLATION_NEAREST;
  }
  return transform.has_random_resized_crop() &&
         transform.random_resized_crop().interpolation() !=
             INTERPOLATION_NEAREST;
}

// Shows pixels of the image a second time around it.
bool RepeatsPixels(const Transform& transform) {
  return transform.pad().padding_mode() != PADDING_CONSTANT ||
         transform.random_crop().padding_mode() != PADDING_CONSTANT;
}

}  // namespace

absl::Status CheckServed(const PipelineSpec& spec, const Field& field,
                         const FieldTrace& trace) {
  const bool raw = IsRawImage(field);
  for (const uint32_t place : trace.image_places) {
    const Transform& transform = spec.transforms(static_cast<int>(place));
    if (IsTensorOperator(transform)) break;  // no image from here on
    const std::string where =
        absl::StrCat("transforms[", place, "].", TransformName(transform),
                     ": field ", field.name());
    if (trace.role == FieldRole::BOXES_XYXY && RepeatsPixels(transform)) {
      return absl::InvalidArgumentError(absl::StrCat(
          where,
          " holds boxes, which cannot follow pixels that are mirrored or "
          "repeated at the edges: set padding_mode: PADDING_CONSTANT"));
    }
    if (!raw) continue;
    if (std::any_of(field.shape().begin(), field.shape().end(),
                    [](int64_t side) { return side > kMaxRawSide; })) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, " has the shape [", absl::StrJoin(field.shape(), ", "),
          "], and a transform works on raw pixels of at most ", kMaxRawSide,
          " along each side: remove the field from the transform"));
    }
    const int64_t channels = field.shape(2);
    // A mask takes the nearest pixel whatever the transform says.
    if (trace.role == FieldRole::IMAGE && channels != 1 && channels != 3 &&
        Interpolates(transform)) {
      return absl::UnimplementedError(absl::StrCat(
          where, " has ", channels,
          " channels, and only images of 1 and 3 channels are interpolated: "
          "set interpolation: INTERPOLATION_NEAREST"));
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace::plan
