// The stage of a field whose transforms end in operators on tensors: an image
// stage, or the stored bytes of a tensor, and behind it the operators, each
// from buffer to buffer and the last into the result.
//
//   MR_ASSIGN_OR_RETURN(auto stage, MakeFieldStage(field, transforms,
//   options));

#ifndef MILLRACE_SERVER_PIPELINE_STAGE_OPERATOR_STAGE_H_
#define MILLRACE_SERVER_PIPELINE_STAGE_OPERATOR_STAGE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/pipeline/stage/image_stage.h"

namespace millrace::pipeline {

// What the transforms of a field in a resolved spec make: ImageStage::Create
// where all work on images (errors as there), otherwise with operators on
// tensors behind it. Internal: the operators make another type than the spec
// says.
absl::StatusOr<std::unique_ptr<ImageStage>> MakeFieldStage(
    const Field& field, absl::Span<const PlacedTransform> transforms,
    const ImageStageOptions& options);

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_STAGE_OPERATOR_STAGE_H_
