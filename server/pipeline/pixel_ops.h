// The transforms of a spec that work on pixels in place, made ready to run.
//
// Pure function, safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(auto op, MakePixelOp(placed, channels, options));

#ifndef MILLRACE_SERVER_PIPELINE_PIXEL_OPS_H_
#define MILLRACE_SERVER_PIPELINE_PIXEL_OPS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/augment/pixel_op.h"
#include "server/pipeline/image_stage.h"

namespace millrace {

// For images of `channels` channels. InvalidArgument: a parameter is out of
// range. Unimplemented: not built yet, or no transform of pixels. Names the
// transform and its place.
absl::StatusOr<std::unique_ptr<const PixelOp>> MakePixelOp(
    const PlacedTransform& placed, int channels,
    const ImageStageOptions& options);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_PIXEL_OPS_H_
