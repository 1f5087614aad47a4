// The defaults of a transform, written out: what Open answers says everything
// that a job runs with, also when a later version has other defaults. Defaults
// that an earlier version did not know are not written, so that the hash of
// its specs stays: the p of random_resized_crop, placements, field roles that
// are absent.
//
// Pure function, safe from any thread.

#ifndef MILLRACE_SERVER_PLAN_TRANSFORM_DEFAULTS_H_
#define MILLRACE_SERVER_PLAN_TRANSFORM_DEFAULTS_H_

#include "proto/names.h"
#include "proto/pipeline.pb.h"

namespace millrace {

// `transform` has passed FindTransformProblems(). Of a transform whose defaults
// are written nothing changes. A custom transform's version and library are
// the server's: see ResolveSpec().
void WriteDefaults(Transform& transform);

}  // namespace millrace

#endif  // MILLRACE_SERVER_PLAN_TRANSFORM_DEFAULTS_H_
