// The random choices for a batch and for each of its samples, by rows, as
// `millrace-data preview` prints them and writes them below pictures.
//
// Value types and one function; belongs to the thread of its batch.
//
//   MR_ASSIGN_OR_RETURN(const ExplainedBatch explained, ExplainRows(*batch));
//   for (const ExplainedSample& sample : explained.samples) ...

#ifndef MILLRACE_SERVER_DATA_TOOL_EXPLAINED_BATCH_H_
#define MILLRACE_SERVER_DATA_TOOL_EXPLAINED_BATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/data_tool/preview_batch.h"

namespace millrace::data_tool {

// Of one transform for one field of a sample, or for a batch.
struct DrawnValues {
  std::string field;   // empty: of the batch
  uint32_t place = 0;  // of the transform in the spec
  std::string what;
};

struct ExplainedSample {
  int64_t row = 0;    // in the batch
  bool here = false;  // false: damaged, another sample took this row
  uint32_t source = 0;
  int64_t index = 0;
  uint64_t key = 0;
  std::vector<DrawnValues> drawn;  // in the order of the transforms, by fields
};

struct ExplainedBatch {
  std::vector<DrawnValues> drawn;
  // Of the rows that are shown, in their order; a damaged sample before what
  // took its place. Padding has none.
  std::vector<ExplainedSample> samples;
};

// Errors as PreviewBatch::Explain().
absl::StatusOr<ExplainedBatch> ExplainRows(const PreviewBatch& batch);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_EXPLAINED_BATCH_H_
