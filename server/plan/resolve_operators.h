// Resolving what a spec says of operators (--operators): each is looked up, its
// version and its library's hash are written out, and what a transform makes of
// a tensor. A spec that has them written out already is compared with what this
// server has.
//
// Pure function, safe from any thread.

#ifndef MILLRACE_SERVER_PLAN_RESOLVE_OPERATORS_H_
#define MILLRACE_SERVER_PLAN_RESOLVE_OPERATORS_H_

#include "absl/status/status.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/plan/operator_catalog.h"

namespace millrace {

// Against spec.sources(source), whose dataset is `info`. `spec` has passed
// CheckSpec(), its defaults are written and its fields exist in `info`.
// `catalog` null: this server has no operators. NotFound: there is no such
// operator. FailedPrecondition: the job was opened with another one, or with
// one that is not here. InvalidArgument: a transform does not fit its field.
// Each says what to do.
absl::Status ResolveOperators(const DatasetInfo& info,
                              const OperatorCatalog* catalog, int source,
                              PipelineSpec& spec);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_RESOLVE_OPERATORS_H_
