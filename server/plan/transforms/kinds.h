// All kinds of transform, each described in its own file. Used by
// server/plan/transforms/transforms.cc.
//
// A new transform needs a message in proto/pipeline.proto, a file here, which
// server/plan/BUILD takes by itself, its name in both lists below, its
// arithmetic in server/augment, the translation of its message in
// server/pipeline/stage/transform_ops.cc, its section in docs/transforms.md,
// and its class in client/python/millrace/transforms.py.
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

inline constexpr TransformKind (*kAllKinds[])() = {
    // clang-format off
    DecodeImageKind, RandomResizedCropKind, ResizeKind, CenterCropKind,
    RandomCropKind, PadKind, HorizontalFlipKind, VerticalFlipKind,
    RandomRotationKind, RandomAffineKind, ColorJitterKind, GrayscaleKind,
    GaussianBlurKind, RandomErasingKind, TrivialAugmentWideKind,
    RandAugmentKind, MixUpKind, CutMixKind, NormalizeKind, ToDtypeKind,
    CustomKind,
    // clang-format on
};

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_TRANSFORMS_KINDS_H_
