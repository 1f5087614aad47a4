// Checks of a pipeline spec that need no dataset: sizes, ranges, counts, names,
// the order of transforms, and features that this version does not know.
// server/plan/resolve.h checks what depends on a dataset's fields.
//
// Pure functions, safe from any thread.
//
//   for (const SpecProblem& problem : FindSpecProblems(spec)) {
//     Print(FormatSpecPath(problem.path), problem.status);
//   }

#ifndef MILLRACE_SERVER_PLAN_SPEC_CHECK_H_
#define MILLRACE_SERVER_PLAN_SPEC_CHECK_H_

#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/plan/spec_limits.h"

namespace millrace::plan {

// A field and, if it is repeated, the element.
struct SpecPathStep {
  const google::protobuf::FieldDescriptor* field;
  int index = -1;
};

struct SpecProblem {
  std::vector<SpecPathStep> path;  // from the spec inwards; may be empty
  // InvalidArgument, NotFound (a preset) or Unimplemented.
  absl::Status status;
};

// All problems, in the order of the spec's fields. Empty: no problem can be
// found without a dataset.
std::vector<SpecProblem> FindSpecProblems(const PipelineSpec& spec);

// "transforms[2].random_resized_crop.height"; "" for an empty path.
std::string FormatSpecPath(const std::vector<SpecPathStep>& path);

// The first problem as a status that begins with its path, or OK.
absl::Status CheckSpec(const PipelineSpec& spec);

// Checks only the numbers of sources, transforms, outputs and field roles, in
// constant time.
absl::Status CheckSpecCounts(const PipelineSpec& spec);

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_SPEC_CHECK_H_
