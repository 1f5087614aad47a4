// The names that the tensors of every batch have, which no output may have.
//
// Pure function, safe from any thread.
//
//   if (IsReservedOutput(output.name(), spec)) ...

#ifndef MILLRACE_SERVER_PLAN_RESERVED_OUTPUT_H_
#define MILLRACE_SERVER_PLAN_RESERVED_OUTPUT_H_

#include "absl/strings/string_view.h"
#include "proto/pipeline.pb.h"

namespace millrace::plan {

// Whether each batch of `spec` has a tensor `name` beside the outputs.
inline bool IsReservedOutput(absl::string_view name, const PipelineSpec& spec) {
  return name == "sample_index" || name == "valid" ||
         (name == "source_index" && spec.sources_size() > 1);
}

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_RESERVED_OUTPUT_H_
