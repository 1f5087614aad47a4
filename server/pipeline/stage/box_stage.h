// The stage of boxes: it moves them as the transforms move the image that they
// belong to, with the same draws, and reads no pixel. Boxes are float32 [K, 4],
// left, top, right, bottom in pixels of the image, stored and in the result.
//
// As torchvision.transforms.v2 on BoundingBoxes, in float32: a crop or a pad
// subtracts its corner, a resize multiplies, a flip mirrors, a turn takes the
// smallest upright box around the four turned corners; after a crop, a pad and
// a turn boxes are clamped to the canvas (ClampBoundingBoxes). K stays: a box
// that has left the canvas ends with no width or no height. A box of four zeros
// is padding and stays so. Stored boxes may reach outside of the image; Run()
// returns DataLoss for a side that is NaN or infinite.
//
// As ImageStage; needs Scratch::image_size.

#ifndef MILLRACE_SERVER_PIPELINE_STAGE_BOX_STAGE_H_
#define MILLRACE_SERVER_PIPELINE_STAGE_BOX_STAGE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/pipeline/stage/image_stage.h"

namespace millrace::pipeline {

// `transforms`: those that name the boxes, which name the image as well.
// Trusted as those of ImageStage::Create: the plan has refused fields that hold
// no boxes and transforms that boxes cannot follow. Internal: one came through.
absl::StatusOr<std::unique_ptr<ImageStage>> MakeBoxStage(
    const Field& field, absl::Span<const PlacedTransform> transforms);

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_STAGE_BOX_STAGE_H_
