// The transforms of a spec that turn, shift, scale and shear, alone or drawn
// from many: parameters are checked, defaults filled in.
//
// Pure functions, safe from any thread.
//
//   if (IsAffine(*placed.transform)) {
//     MR_ASSIGN_OR_RETURN(auto options, ReadAffine(placed, 3, {}));
//   }

#ifndef MILLRACE_SERVER_PIPELINE_READ_AFFINE_H_
#define MILLRACE_SERVER_PIPELINE_READ_AFFINE_H_

#include "absl/status/statusor.h"
#include "server/augment/auto_augment.h"
#include "server/augment/random_affine.h"
#include "server/pipeline/image_stage.h"

namespace millrace {

// RandomRotation, RandomAffine: they move masks and boxes, too.
bool IsAffine(const Transform& transform);

// For images of `channels` channels; a mask takes the nearest pixel whatever
// the transform says, and its own fill. InvalidArgument: a parameter is out of
// range. Unimplemented: not built yet. Names the transform and its place.
absl::StatusOr<RandomAffineOptions> ReadAffine(
    const PlacedTransform& placed, int channels,
    const ImageStageOptions& options);

// TrivialAugmentWide, RandAugment: of images alone.
bool IsAutoAugment(const Transform& transform);

absl::StatusOr<AutoAugmentOptions> ReadAutoAugment(
    const PlacedTransform& placed, int channels,
    const ImageStageOptions& options);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_READ_AFFINE_H_
