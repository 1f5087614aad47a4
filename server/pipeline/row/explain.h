// Explain builds one batch again on the calling thread and records its random
// choices: the index and key of each sample, and the parameters of each
// transform. For people (`millrace-data preview --explain`) and tests. It
// produces the same bytes as the engine.
//
// Safe from any thread. Takes memory of its own, not of a budget.
//
//   MR_ASSIGN_OR_RETURN(std::string payload,
//                       ExplainBatch(*pipeline, epoch, step, log));

#ifndef MILLRACE_SERVER_PIPELINE_ROW_EXPLAIN_H_
#define MILLRACE_SERVER_PIPELINE_ROW_EXPLAIN_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "server/augment/parameter_log.h"
#include "server/pipeline/engine.h"

namespace millrace::pipeline {

// The whole batch of a step, as rank 0 of a world of 1 gets it; its payload.
// `pipeline` comes from Engine::Open(). `log` learns what was drawn for the
// batch, then for each of its rows in their order. OutOfRange: no such step.
// DataLoss: a bad sample under the policy FAIL.
absl::StatusOr<std::string> ExplainBatch(const Pipeline& pipeline,
                                         uint64_t epoch, uint64_t step,
                                         augment::ParameterLog& log);

}  // namespace millrace::pipeline

#endif  // MILLRACE_SERVER_PIPELINE_ROW_EXPLAIN_H_
