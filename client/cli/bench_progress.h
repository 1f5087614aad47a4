// BenchProgress shows which round of a sweep runs: on a terminal one line that
// rewrites itself, otherwise a line for each round.
//
// One thread.
//
//   BenchProgress progress(stderr, isatty(STDERR_FILENO) == 1);
//   progress.Round(1, 3, "window=4");
//   progress.Clear();  // before the table

#ifndef MILLRACE_CLIENT_CLI_BENCH_PROGRESS_H_
#define MILLRACE_CLIENT_CLI_BENCH_PROGRESS_H_

#include <cstdint>
#include <cstdio>

#include "absl/strings/string_view.h"

namespace millrace::cli {

class BenchProgress {
 public:
  // `out` must outlive this.
  BenchProgress(std::FILE* out, bool on_terminal)
      : out_(out), on_terminal_(on_terminal) {}
  ~BenchProgress() { Clear(); }
  BenchProgress(const BenchProgress&) = delete;

  // Round `round` (from 1) of `rounds` begins with `setting`.
  void Round(uint32_t round, uint32_t rounds, absl::string_view setting);
  // Clears the line of a terminal.
  void Clear();

 private:
  std::FILE* const out_;
  const bool on_terminal_;
  bool shown_ = false;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLIENT_CLI_BENCH_PROGRESS_H_
