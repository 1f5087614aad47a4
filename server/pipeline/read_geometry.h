// The crops, resizes, pads and flips of a spec as GeometryOps: parameters are
// checked, defaults filled in.
//
// Pure functions, safe from any thread.
//
//   if (IsGeometry(*placed.transform)) {
//     MR_ASSIGN_OR_RETURN(GeometryOp op, ReadGeometry(placed, 3, options));
//   }

#ifndef MILLRACE_SERVER_PIPELINE_READ_GEOMETRY_H_
#define MILLRACE_SERVER_PIPELINE_READ_GEOMETRY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_field.h"
#include "server/augment/geometry_op.h"
#include "server/pipeline/image_stage.h"

namespace millrace {

bool IsGeometry(const Transform& transform);

// For images of `channels` channels; a mask takes the nearest pixel whatever
// the transform says, and its own fill. InvalidArgument: a parameter is out of
// range. Unimplemented: not built yet. Names the transform and its place.
absl::StatusOr<GeometryOp> ReadGeometry(const PlacedTransform& placed,
                                        int channels,
                                        const ImageStageOptions& options);

// A transform's `fill`: nothing, one value, or one a channel, 0 .. 255. `name`
// and `place` are for the error.
absl::StatusOr<FillColor> ReadFill(
    absl::string_view name, uint32_t place,
    const google::protobuf::RepeatedField<uint32_t>& fill, int channels,
    const ImageStageOptions& options);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_READ_GEOMETRY_H_
