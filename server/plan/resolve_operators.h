// Resolving the operators of a spec (--operators): each operator is looked up,
// and its version, its library's hash and the result of a transform on a tensor
// are written out. If a spec contains these values already, they are compared
// with this server's operators.
//
// Pure function, safe from any thread.

#ifndef MILLRACE_SERVER_PLAN_RESOLVE_OPERATORS_H_
#define MILLRACE_SERVER_PLAN_RESOLVE_OPERATORS_H_

#include "absl/status/status.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/plan/operator_catalog.h"

namespace millrace::plan {

// Resolves against spec.sources(source), whose dataset is `info`. `spec` has
// passed CheckSpec(), its defaults are written out and its fields exist in
// `info`. `catalog` null: this server has no operators. NotFound: there is no
// such operator. FailedPrecondition: the job was opened with another operator,
// or with one that this server lacks. InvalidArgument: a transform does not fit
// its field. Each message says what to do.
absl::Status ResolveOperators(const DatasetInfo& info,
                              const OperatorCatalog* catalog, int source,
                              PipelineSpec& spec);

}  // namespace millrace::plan

#endif  // MILLRACE_SERVER_PLAN_RESOLVE_OPERATORS_H_
