// Resolving a spec: presets and defaults are written out and everything is
// checked against the dataset, so that what a job runs is what its spec says.
// Resolving a resolved spec gives it back unchanged.
//
// Pure function, safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(PipelineSpec resolved, ResolveSpec(spec, datasets));

#ifndef MILLRACE_SERVER_PLAN_RESOLVE_H_
#define MILLRACE_SERVER_PLAN_RESOLVE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/plan/operator_catalog.h"

namespace millrace {

// By the name that a dataset is registered under. Not owned.
using DatasetInfos = std::map<std::string, const DatasetInfo*>;

// `operators` null: this server has none. InvalidArgument, NotFound (dataset,
// preset, field, operator), Unimplemented, or FailedPrecondition (an operator
// is another one than the job was opened with); the message names the place in
// the spec and what to do. Stage "plan" in its error detail.
absl::StatusOr<PipelineSpec> ResolveSpec(
    const PipelineSpec& spec, const DatasetInfos& datasets,
    const OperatorCatalog* operators = nullptr);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_RESOLVE_H_
