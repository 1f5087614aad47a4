// FieldRules checks the order of a spec's transforms field by field, and that
// images, masks and boxes that belong together get the same geometric
// transforms. It needs no dataset.
//
// Belongs to one thread. Holds a reference to the spec.
//
//   FieldRules rules(spec);
//   for (const Transform& transform : spec.transforms()) {
//     for (const absl::Status& problem : rules.Next(transform)) ...
//   }

#ifndef MILLRACE_SERVER_PLAN_FIELD_RULES_H_
#define MILLRACE_SERVER_PLAN_FIELD_RULES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/plan/transforms/transforms.h"

namespace millrace::plan {

// Returns IMAGE for a field without a role.
FieldRole::Role RoleOf(const PipelineSpec& spec, const std::string& field);

// The image that a mask or boxes belong to; "" for other fields.
std::string ImageOf(const PipelineSpec& spec, const std::string& field);

class FieldRules {
 public:
  explicit FieldRules(const PipelineSpec& spec) : spec_(spec) {}

  // Checks the next transform of the spec. InvalidArgument: what is wrong with
  // it at this place.
  std::vector<absl::Status> Next(const Transform& transform);

 private:
  struct History {
    int count = 0;
    TransformPhase phase = TransformPhase::kDecode;  // of the last
    std::string last;                                // its name
  };

  void Invalid(absl::string_view text);
  void CheckOrder(const Transform& transform, const std::string& field);
  void CheckRole(const Transform& transform, const std::string& field,
                 const std::vector<std::string>& fields);

  const PipelineSpec& spec_;
  std::map<std::string, History> history_;
  std::vector<absl::Status> problems_;
};

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_FIELD_RULES_H_
