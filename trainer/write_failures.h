// WriteFailures turns the results of a file that is written again and again
// into few log lines: one when writing begins to fail, then one every 10 s with
// the number of further failures, and one when writing works again. It writes
// nothing itself.
//
// One thread.
//
//   WriteFailures failures("run.ckpt");
//   if (const auto line = failures.LineOf(written, steady_clock::now())) {
//     Log(*line);
//   }

#ifndef MILLRACE_TRAINER_WRITE_FAILURES_H_
#define MILLRACE_TRAINER_WRITE_FAILURES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/line_limit.h"
#include "common/mutex.h"

namespace millrace::trainer {

class WriteFailures {
 public:
  explicit WriteFailures(std::string path) : path_(std::move(path)) {}

  // The line to log about the result of a write at `now`: an error line unless
  // `written` is OK. Absent: there is nothing to say.
  std::optional<std::string> LineOf(const absl::Status& written,
                                    SteadyTime now);

 private:
  const std::string path_;
  LineLimit limit_{{.burst = 1}};
  uint64_t failed_ = 0;  // writes since the last one that worked
  bool told_ = false;    // of a failure since the last write that worked
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_WRITE_FAILURES_H_
