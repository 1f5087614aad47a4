// For tests over datasets with more fields than a spec decodes: what the spec
// does not list as outputs would be refused, so it is listed.

#ifndef MILLRACE_TESTS_SERVER_PLAN_LIST_OUTPUTS_H_
#define MILLRACE_TESTS_SERVER_PLAN_LIST_OUTPUTS_H_

#include <algorithm>

#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace::plan {

// Gives a spec without outputs those that it can have: the tensors of the
// dataset and the images that it decodes.
inline void ListOutputs(const DatasetInfo& info, PipelineSpec& spec) {
  if (spec.outputs_size() > 0 || !spec.preset().empty()) return;
  for (const Field& field : info.schema().fields()) {
    const bool decoded = std::any_of(
        spec.transforms().begin(), spec.transforms().end(),
        [&field](const Transform& transform) {
          if (!transform.has_decode_image()) return false;
          const std::string& name = transform.decode_image().field();
          return field.name() == (name.empty() ? "image" : name);
        });
    if (field.kind() == FIELD_KIND_TENSOR ||
        (field.kind() == FIELD_KIND_ENCODED_IMAGE && decoded)) {
      spec.add_outputs()->set_field(field.name());
    }
  }
}

}  // namespace millrace::plan

#endif  // MILLRACE_TESTS_SERVER_PLAN_LIST_OUTPUTS_H_
