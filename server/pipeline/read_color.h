// The transforms of a spec that change an image's colour or blur or erase it,
// as pixel operations: parameters are checked, defaults filled in.
//
// Pure functions, safe from any thread.
//
//   if (IsColor(*placed.transform)) return ReadColor(placed, channels);

#ifndef MILLRACE_SERVER_PIPELINE_READ_COLOR_H_
#define MILLRACE_SERVER_PIPELINE_READ_COLOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/augment/pixel_op.h"
#include "server/pipeline/image_stage.h"

namespace millrace {

// ColorJitter, Grayscale, GaussianBlur, RandomErasing.
bool IsColor(const Transform& transform);

// For images of `channels` channels. InvalidArgument: a parameter is out of
// range, or the transform works on other numbers of channels. Names the
// transform and its place.
absl::StatusOr<std::unique_ptr<const PixelOp>> ReadColor(
    const PlacedTransform& placed, int channels);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_READ_COLOR_H_
