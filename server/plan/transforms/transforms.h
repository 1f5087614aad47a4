// The transforms of a spec: their kinds, the fields that they name, the check
// of their own parameters, and their defaults. server/plan/spec_check.h checks
// the combination of transforms; server/plan/field_trace.h checks whether a
// transform fits a field.
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

namespace millrace::plan {

// Null for an empty transform.
const TransformKind* KindOf(const Transform& transform);

// "random_crop"; "transform" for an empty one.
std::string TransformName(const Transform& transform);

// kSample for an empty one.
TransformPhase PhaseOf(const Transform& transform);

// Moves pixels, so masks and boxes get the same transform as their image.
bool IsGeometric(const Transform& transform);

// The fields that a transform works on, including default fields, followed by
// the labels of mix_up and cut_mix; none for an empty transform.
std::vector<std::string> TransformFields(const Transform& transform);

// The problems of a transform's parameters, in the order of the parameters;
// none for an empty transform. Numbers must be finite and enum values known;
// server/plan/spec_check.h checks that.
TransformProblems FindTransformProblems(const Transform& transform);

// Writes the defaults out, so that the answer of Open contains every parameter
// of the job, even if a later version has other defaults. Defaults that an
// earlier version did not have are not written, so that the hash of its specs
// does not change: the p of random_resized_crop, placements, absent field
// roles.
//
// `transform` has no problems. A transform whose defaults are written out does
// not change. ResolveSpec() sets the version and library of a custom transform.
void WriteDefaults(Transform& transform);

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_TRANSFORMS_TRANSFORMS_H_
