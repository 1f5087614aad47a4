// Checks of one transform's own parameters: ranges, counts, and values that
// belong together. What a transform may stand beside is checked by
// server/plan/spec_check.h, whether it fits a field by
// server/plan/field_trace.h.
//
// Pure functions, safe from any thread. Numbers must be finite.
//
//   for (const TransformProblem& p : FindTransformProblems(transform)) ...

#ifndef MILLRACE_SERVER_PLAN_TRANSFORM_CHECK_H_
#define MILLRACE_SERVER_PLAN_TRANSFORM_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace {

struct TransformProblem {
  // Of the transform's message; empty: the transform as a whole.
  std::string field;
  int index = -1;       // in a repeated field
  absl::Status status;  // InvalidArgument
};

// In the order of the parameters; empty: none. `transform` is not an empty one.
std::vector<TransformProblem> FindTransformProblems(const Transform& transform);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_TRANSFORM_CHECK_H_
