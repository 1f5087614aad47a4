// The differences of two resolved pipeline specs, field by field: the reason
// why a run does not belong to an audit log or a checkpoint.
//
// It does not compare `compression`, which is no part of a plan.
//
// Pure function, safe from any thread.
//
//   for (const FieldDifference& field : DifferencesOf(logged, ours)) {
//     // field.name: "batch_size", field.before: "32", field.after: "64"
//   }

#ifndef MILLRACE_CLIENT_AUDIT_SPEC_DIFFERENCE_H_
#define MILLRACE_CLIENT_AUDIT_SPEC_DIFFERENCE_H_

#include <string>
#include <vector>

#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace::audit {

struct FieldDifference {
  std::string name;  // of the field of PipelineSpec
  // Protobuf text; for a list, the elements that the other list lacks. "none"
  // without a value, "another order" for lists of the same elements. Long texts
  // are cut.
  std::string before;
  std::string after;
};

// In the order of the fields.
std::vector<FieldDifference> DifferencesOf(const PipelineSpec& before,
                                           const PipelineSpec& after);

// "batch_size (32 in the log, 64 here), seed (0 in the log, 1 here)".
std::string DifferenceText(const std::vector<FieldDifference>& fields,
                           const std::string& where_before,
                           const std::string& where_after);

}  // namespace millrace::audit

#endif  // MILLRACE_CLIENT_AUDIT_SPEC_DIFFERENCE_H_
