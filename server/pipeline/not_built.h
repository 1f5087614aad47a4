// What a spec may say and this version does not compute yet. The plan checks
// that a spec makes sense; this file refuses what nobody here would carry out,
// so that nothing is ignored. Whoever builds a piece deletes its refusal.
// Transforms that image stages do not know are refused by them.
//
// Pure function, safe from any thread.

#ifndef MILLRACE_SERVER_PIPELINE_NOT_BUILT_H_
#define MILLRACE_SERVER_PIPELINE_NOT_BUILT_H_

#include "absl/status/status.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace {

// `resolved` comes from ResolveSpec() over `info`. Unimplemented: names the
// place in the spec and what to do instead.
absl::Status CheckBuilt(const PipelineSpec& resolved, const DatasetInfo& info);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PIPELINE_NOT_BUILT_H_
