// Transforms of the server's --operators libraries
// (server/operators/millrace_operator.h), made ready to run: an operator on
// images is a PixelOp, one on tensors a TensorOp.
//
// Both draw from CounterRandom(sample key, place): first one number for `p`,
// whatever p is, then what the operator draws. Of several fields each gets the
// same numbers.
//
//   MR_ASSIGN_OR_RETURN(auto op, MakeOperatorPixelOp(*transform, custom, 2,
//   3));

#ifndef MILLRACE_SERVER_PIPELINE_STAGE_OPERATOR_TRANSFORM_H_
#define MILLRACE_SERVER_PIPELINE_STAGE_OPERATOR_TRANSFORM_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/augment/pixel_op.h"
#include "server/operators/operators.h"
#include "server/pipeline/stage/tensor_op.h"

namespace millrace::pipeline {

// The transform that `custom` names, which comes from a resolved spec:
// ResolveSpec() has found it among the loaded operators.
const operators::Operators::Transform& LoadedTransform(
    const operators::Operators* operators, const CustomTransform& custom);

// `transform` works on images; `place` is that of `custom` in the spec.
// InvalidArgument: the operator takes no such configuration or no images of
// `channels` channels; its own words. Internal: it breaks the rules of the
// border.
absl::StatusOr<std::unique_ptr<const augment::PixelOp>> MakeOperatorPixelOp(
    const operators::Operators::Transform& transform,
    const CustomTransform& custom, uint32_t place, int channels);

// `transform` works on tensors. Errors as above.
absl::StatusOr<std::unique_ptr<const TensorOp>> MakeOperatorTensorOp(
    const operators::Operators::Transform& transform,
    const CustomTransform& custom, uint32_t place, const TensorType& input);

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_STAGE_OPERATOR_TRANSFORM_H_
