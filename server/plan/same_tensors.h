// Checks whether two sources of one spec give the same tensors, because a batch
// contains samples of both.
//
// Pure function, safe from any thread.

#ifndef MILLRACE_SERVER_PLAN_SAME_TENSORS_H_
#define MILLRACE_SERVER_PLAN_SAME_TENSORS_H_

#include "absl/status/status.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace::plan {

// `first` and `other` are one spec, resolved against the first source alone and
// against spec.sources(source) alone. InvalidArgument: outputs, types, shapes,
// classes or the result of an operator differ; the message says which, and what
// to do. One of the two may lack class names; if both have them, they must be
// equal.
absl::Status CheckSameTensors(const PipelineSpec& first,
                              const DatasetInfo& first_info,
                              const PipelineSpec& other,
                              const DatasetInfo& other_info, int source);

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_SAME_TENSORS_H_
