// What a transform of a spec is: its name, the fields that it names, and the
// phase of a field's life that it belongs to. No parameter is looked at.
//
// Pure functions, safe from any thread.
//
//   for (const std::string& field : TransformFields(transform)) ...
//   if (PhaseOf(transform) == TransformPhase::kBatch) ...

#ifndef MILLRACE_SERVER_PLAN_TRANSFORM_KINDS_H_
#define MILLRACE_SERVER_PLAN_TRANSFORM_KINDS_H_

#include <string>
#include <vector>

#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace {

// In the order in which they may touch a field.
enum class TransformPhase {
  kDecode,     // decode_image
  kSample,     // of one sample: geometry, colour, an operator
  kBatch,      // mix_up, cut_mix
  kNormalize,  // normalize
  kDtype,      // to_dtype
};

// "random_crop"; "transform" for an empty one.
std::string TransformName(const Transform& transform);

// kSample for an empty one.
TransformPhase PhaseOf(const Transform& transform);

// Moves pixels: masks and boxes go with their image.
bool IsGeometric(const Transform& transform);

// The fields that a transform works on, the defaults written out, labels of
// mix_up and cut_mix last; none for an empty one.
std::vector<std::string> TransformFields(const Transform& transform);

// The labels among them.
std::vector<std::string> TransformLabels(const Transform& transform);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_TRANSFORM_KINDS_H_
