// All kinds of transform, each described in its own file. Used by
// server/plan/transforms/transforms.cc, which lists them.
//
// A new transform needs a message in proto/pipeline.proto, a file here, a line
// below and in that list, its operation in
// server/pipeline/stage/transform_ops.cc, and its section in
// docs/transforms.md.
//
// Pure functions.

#ifndef MILLRACE_SERVER_PLAN_TRANSFORMS_KINDS_H_
#define MILLRACE_SERVER_PLAN_TRANSFORMS_KINDS_H_

#include "server/plan/transforms/transform_kind.h"

namespace millrace::plan {

// Decoding.
TransformKind DecodeImageKind();

// Size and place.
TransformKind RandomResizedCropKind();
TransformKind ResizeKind();
TransformKind CenterCropKind();
TransformKind RandomCropKind();
TransformKind PadKind();
TransformKind HorizontalFlipKind();
TransformKind VerticalFlipKind();
TransformKind RandomRotationKind();
TransformKind RandomAffineKind();

// Colour and tone.
TransformKind ColorJitterKind();
TransformKind GrayscaleKind();
TransformKind GaussianBlurKind();
TransformKind RandomErasingKind();

// Automatic augmentation.
TransformKind TrivialAugmentWideKind();
TransformKind RandAugmentKind();

// Batches.
TransformKind MixUpKind();
TransformKind CutMixKind();

// On the way to the trainer.
TransformKind NormalizeKind();
TransformKind ToDtypeKind();

// Operators.
TransformKind CustomKind();

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_TRANSFORMS_KINDS_H_
