// The transforms of a spec as what server/augment runs: crops, resizes, pads
// and flips as GeometryOps, the rest as operations on pixels. The one place
// where a message becomes an operation.
//
// It checks no parameter: the messages have no problems and have their defaults
// written (server/plan/transforms/transforms.h), and they fit the field
// (server/plan/field_trace.h). A mask takes the nearest pixel whatever the
// transform says, and its own fill.
//
// Pure functions, safe from any thread.
//
//   if (std::optional<GeometryOp> op = GeometryOf(placed, options)) ...
//   MR_ASSIGN_OR_RETURN(auto op, MakePixelOp(placed, channels, options));

#ifndef MILLRACE_SERVER_PIPELINE_STAGE_TRANSFORM_OPS_H_
#define MILLRACE_SERVER_PIPELINE_STAGE_TRANSFORM_OPS_H_

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "server/augment/geometry_op.h"
#include "server/augment/pixel_op.h"
#include "server/augment/random_affine.h"
#include "server/pipeline/stage/image_stage.h"

namespace millrace::pipeline {

// Absent: no crop, resize, pad or flip.
std::optional<augment::GeometryOp> GeometryOf(const PlacedTransform& placed,
                                              const ImageStageOptions& options);

// Absent: neither random_rotation nor random_affine, which move boxes, too.
std::optional<augment::RandomAffineOptions> AffineOf(
    const PlacedTransform& placed, const ImageStageOptions& options);

// For images of `channels` channels. InvalidArgument: a custom transform
// refuses its configuration. Unimplemented: no transform of pixels. Both name
// the transform and its place.
absl::StatusOr<std::unique_ptr<const augment::PixelOp>> MakePixelOp(
    const PlacedTransform& placed, int channels,
    const ImageStageOptions& options);

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_STAGE_TRANSFORM_OPS_H_
