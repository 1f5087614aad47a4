// The common part of random_crop and pad: pixels around an image, and their
// values.
//
// Pure functions, safe from any thread.

#ifndef MILLRACE_SERVER_PLAN_TRANSFORMS_PADDING_H_
#define MILLRACE_SERVER_PLAN_TRANSFORMS_PADDING_H_

#include <google/protobuf/repeated_field.h>

#include <cstdint>

#include "server/plan/transforms/transform_kind.h"

namespace millrace::plan {

// Checks that `fill` and `padding_mode` fit each other and a transform that
// pads.
template <typename M>
void CheckFilling(const M& message, bool pads, TransformProblems& problems) {
  if (message.padding_mode() != PADDING_CONSTANT && !pads) {
    AddProblem(problems, "padding_mode",
               "padding_mode has no effect without padding: write padding, or "
               "remove padding_mode");
  } else if (message.padding_mode() != PADDING_CONSTANT &&
             message.fill_size() > 0) {
    AddProblem(problems, "fill",
               "fill has an effect only with padding_mode: PADDING_CONSTANT: "
               "remove one of the two");
  } else if (!pads && message.fill_size() > 0) {
    AddProblem(
        problems, "fill",
        "fill has no effect without padding: write padding, or remove fill");
  }
}

// Writes 0 if pixels are filled and no value is given.
template <typename M>
void WriteFill(M& message, bool pads) {
  if (pads && message.padding_mode() == PADDING_CONSTANT &&
      message.fill_size() == 0) {
    message.add_fill(0);
  }
}

// Enlarges a known size, or a known shorter side. `padding` has 0, 1, 2 or 4
// values.
absl::Status GrowByPadding(
    const google::protobuf::RepeatedField<uint32_t>& padding,
    TracedField& field);

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_TRANSFORMS_PADDING_H_
