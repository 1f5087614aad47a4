// Which part of a stored image the result of its transforms shows: the canvas
// of every crop, resize, pad, flip and turn is laid back onto the stored image,
// and what lies in all of them is shown. What operators of users and automatic
// augmentation move is not known here.
//
// Pure function, safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(std::vector<PicturePoint> corners,
//                       SourceRegion(transforms, {500, 375}, sample_key));

#ifndef MILLRACE_SERVER_DATA_TOOL_SOURCE_REGION_H_
#define MILLRACE_SERVER_DATA_TOOL_SOURCE_REGION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/picture/picture.h"
#include "server/augment/geometry.h"
#include "server/pipeline/stage/image_stage.h"

namespace millrace::data_tool {

// The corners of a convex polygon in pixels of the stored image, upright, of
// `stored` pixels. Empty: the whole image is shown, or nothing of it.
// `transforms`: those of the image, of a resolved spec, in its order. DataLoss:
// the image is too small for a random_crop.
absl::StatusOr<std::vector<picture::PicturePoint>> SourceRegion(
    absl::Span<const pipeline::PlacedTransform> transforms,
    augment::Size stored, uint64_t sample_key);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_SOURCE_REGION_H_
