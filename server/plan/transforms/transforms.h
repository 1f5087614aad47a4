// The transforms of a spec: what each is, the fields that it names, whether its
// own parameters can be, and its defaults. What a transform may stand beside is
// checked by server/plan/spec_check.h, whether it fits a field by
// server/plan/field_trace.h.
//
// Pure functions, safe from any thread.
//
//   for (const TransformProblem& p : FindTransformProblems(transform)) ...
//   for (const std::string& field : TransformFields(transform)) ...

#ifndef MILLRACE_SERVER_PLAN_TRANSFORMS_TRANSFORMS_H_
#define MILLRACE_SERVER_PLAN_TRANSFORMS_TRANSFORMS_H_

#include <string>
#include <vector>

#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/plan/transforms/transform_kind.h"

namespace millrace {

// Null for an empty transform.
const TransformKind* KindOf(const Transform& transform);

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

// What is wrong with its parameters, in their order; none for an empty one.
// Numbers must be finite, enum values known: server/plan/spec_check.h sees to
// that.
TransformProblems FindTransformProblems(const Transform& transform);

// Writes the defaults out: what Open answers says everything that a job runs
// with, also when a later version has other defaults. Defaults that an earlier
// version did not know are not written, so that the hash of its specs stays:
// the p of random_resized_crop, placements, field roles that are absent.
//
// `transform` has no problems. Of a transform whose defaults are written
// nothing changes. A custom transform's version and library are the server's:
// see ResolveSpec().
void WriteDefaults(Transform& transform);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_TRANSFORMS_TRANSFORMS_H_
