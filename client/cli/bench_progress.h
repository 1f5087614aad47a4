// BenchProgress shows which round of a sweep runs: on a terminal one line that
// rewrites itself, otherwise a line for each round.
//
// One thread.
//
//   BenchProgress progress(STDERR_FILENO, isatty(STDERR_FILENO) == 1);
//   progress.Round(1, 3, "window=4");
//   progress.Clear();  // before the table

#ifndef MILLRACE_CLIENT_CLI_BENCH_PROGRESS_H_
#define MILLRACE_CLIENT_CLI_BENCH_PROGRESS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "common/program/progress_line.h"

namespace millrace::cli {

class BenchProgress {
 public:
  // `fd` must outlive this.
  BenchProgress(int fd, bool on_terminal) : line_(fd, on_terminal) {}
  ~BenchProgress() { Clear(); }
  BenchProgress(const BenchProgress&) = delete;

  // Round `round` (from 1) of `rounds` begins with `setting`.
  void Round(uint32_t round, uint32_t rounds, absl::string_view setting);
  // Clears the line of a terminal.
  void Clear() { line_.Clear(); }

 private:
  program::ProgressLine line_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLIENT_CLI_BENCH_PROGRESS_H_
