// The contact sheet of a batch: its pictures with what they are and what was
// drawn for them in words.
//
// One function; belongs to the thread of the batch.
//
//   MR_ASSIGN_OR_RETURN(const Picture sheet,
//                       PreviewSheet(*batch, explained, facts, {}));

#ifndef MILLRACE_SERVER_DATA_TOOL_PREVIEW_SHEET_H_
#define MILLRACE_SERVER_DATA_TOOL_PREVIEW_SHEET_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/picture/picture.h"
#include "server/data_tool/contact_sheet.h"
#include "server/data_tool/explained_batch.h"
#include "server/data_tool/preview_batch.h"

namespace millrace::data_tool {

// What the batch does not say of itself.
struct PreviewFacts {
  std::string pipeline;  // "preset imagenet_train", "my.textproto"
  uint64_t epoch = 0;
  uint64_t step = 0;
};

// Errors as PreviewBatch::Pairs().
absl::StatusOr<picture::Picture> PreviewSheet(const PreviewBatch& batch,
                                              const ExplainedBatch& explained,
                                              const PreviewFacts& facts,
                                              const SheetOptions& options);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_PREVIEW_SHEET_H_
