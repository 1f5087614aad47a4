// Resolving a spec: presets and defaults are written out, and everything is
// checked against the dataset. The resolved spec therefore describes the job
// completely. Resolving a resolved spec returns it unchanged.
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

namespace millrace::plan {

// Keyed by the name that a dataset is registered under. Not owned.
using DatasetInfos = std::map<std::string, const DatasetInfo*>;

// `operators` null: this server has no operators. Errors: InvalidArgument,
// NotFound (dataset, preset, field, operator), Unimplemented, or
// FailedPrecondition (an operator differs from the one that the job was opened
// with). The message names the place in the spec and what to do. The stage in
// its error detail is "plan".
absl::StatusOr<PipelineSpec> ResolveSpec(
    const PipelineSpec& spec, const DatasetInfos& datasets,
    const OperatorCatalog* operators = nullptr);

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_RESOLVE_H_
