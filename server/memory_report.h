// The use of a server's memory, as --check_config prints it: threads x scratch,
// samples read ahead, caches, and the number of batches of each pipeline that
// fit into the rest.
//
//   MR_RETURN_IF_ERROR(CheckMemory(settings, needs, advice));
//   std::string text = DescribeMemory(use, settings.file_read_bytes);
//   MR_ASSIGN_OR_RETURN(std::string batches, DescribeBatches(engine, ...));

#ifndef MILLRACE_SERVER_MEMORY_REPORT_H_
#define MILLRACE_SERVER_MEMORY_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/budget_advice.h"
#include "server/config.h"
#include "server/pipeline/engine.h"
#include "server/pipeline/memory_use.h"

namespace millrace::server {

// InvalidArgument: the budget is below kMinBudgetBytes, the minimum for any
// datasets.
absl::Status CheckMinBudget(const ServerSettings& settings);

// InvalidArgument: the budget is below that minimum or leaves nothing for
// batches; the message shows the arithmetic and the smallest sufficient budget.
absl::Status CheckMemory(const ServerSettings& settings,
                         const pipeline::MemoryNeeds& needs,
                         const BudgetAdvice& advice);

// A table. `file_read_bytes`: the part of use.elsewhere for files of image
// folders.
std::string DescribeMemory(const pipeline::MemoryUse& use,
                           uint64_t file_read_bytes);

// For the training and the evaluation preset of each dataset: the memory of a
// batch of kExampleRows, and the number of such batches that fit. A dataset
// without presets counts with all of its columns. FailedPrecondition, a usage
// error: not even one row fits, or the columns of the dataset do not fit
// together and no pipeline of `advice` selects columns; the message names the
// smallest sufficient budget.
inline constexpr uint64_t kExampleRows = 64;
absl::StatusOr<std::string> DescribePresets(pipeline::Engine& engine,
                                            const BudgetAdvice& advice);

// The same for the batches of `spec`, which `name` stands for in the text.
// Errors of Engine::Open(); FailedPrecondition: a batch does not fit. Those
// that are mistakes of the configuration, or of the pipeline, are marked as
// such (common/usage_error.h).
absl::StatusOr<std::string> DescribePipeline(pipeline::Engine& engine,
                                             const PipelineSpec& spec,
                                             const std::string& name,
                                             const BudgetAdvice& advice);

}  // namespace millrace::server

#endif  // MILLRACE_SERVER_MEMORY_REPORT_H_
