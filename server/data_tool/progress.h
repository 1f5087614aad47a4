// A progress line on a terminal, nothing elsewhere.
//
// Belongs to one thread at a time.

#ifndef MILLRACE_SERVER_DATA_TOOL_PROGRESS_H_
#define MILLRACE_SERVER_DATA_TOOL_PROGRESS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace millrace {

class ToolProgress {
 public:
  // `verb`: "packing". Writes to standard error.
  ToolProgress(std::string verb, int64_t total);
  ~ToolProgress();  // clears the line
  ToolProgress(const ToolProgress&) = delete;

  // `done` of the total, `bytes` since the beginning.
  void Update(int64_t done, int64_t bytes);

 private:
  const std::string verb_;
  const int64_t total_;
  const bool on_terminal_;
  const absl::Time start_;
  absl::Time next_;
  bool shown_ = false;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_DATA_TOOL_PROGRESS_H_
