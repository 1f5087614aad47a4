// What differs between two resolved pipeline specs, field by field: why a run
// is not the one that an audit log or a checkpoint is of.
//
// Pure function, safe from any thread.
//
//   for (const FieldDifference& field : DifferencesOf(logged, ours)) {
//     ... field.name: "batch_size", field.before: "32", field.after: "64"
//   }

#ifndef MILLRACE_CLIENT_AUDIT_SPEC_DIFFERENCE_H_
#define MILLRACE_CLIENT_AUDIT_SPEC_DIFFERENCE_H_

#include <string>
#include <vector>

#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace {

struct FieldDifference {
  std::string name;  // of the field of PipelineSpec
  // As protobuf text, of a list what the other list lacks; "none" without, and
  // "another order" where two lists hold the same. Long ones are cut.
  std::string before;
  std::string after;
};

// In the order of the fields. `compression` is not compared: it is no part of a
// plan.
std::vector<FieldDifference> DifferencesOf(const PipelineSpec& before,
                                           const PipelineSpec& after);

// "batch_size (32 in the log, 64 here), seed (0 in the log, 1 here)".
std::string DifferenceText(const std::vector<FieldDifference>& fields,
                           const std::string& where_before,
                           const std::string& where_after);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_AUDIT_SPEC_DIFFERENCE_H_
