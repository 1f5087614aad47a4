// A progress line on a terminal, nothing elsewhere.
//
// Belongs to one thread at a time.
//
//   ToolProgress progress("packing", samples);
//   progress.Update(done, bytes);

#ifndef MILLRACE_SERVER_DATA_TOOL_PROGRESS_H_
#define MILLRACE_SERVER_DATA_TOOL_PROGRESS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/program/progress_line.h"

namespace millrace::data_tool {

class ToolProgress {
 public:
  // `verb`: "packing". Writes to standard error.
  ToolProgress(std::string verb, int64_t total);
  ~ToolProgress() { line_.Clear(); }
  ToolProgress(const ToolProgress&) = delete;

  // `done` of the total, `bytes` since the beginning; 0: not counted.
  void Update(int64_t done, int64_t bytes);

 private:
  const std::string verb_;
  const int64_t total_;
  const absl::Time start_;
  absl::Time next_;
  program::ProgressLine line_;
};

// "packing [######........................] 256,233/1,281,167, 17,100/s,
// 1.9 GB/s"; without the size when `bytes` is 0.
std::string ToolProgressText(absl::string_view verb, int64_t done,
                             int64_t total, int64_t bytes, double seconds);

}  // namespace millrace::data_tool

#endif  // MILLRACE_SERVER_DATA_TOOL_PROGRESS_H_
