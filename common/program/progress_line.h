// ProgressLine shows how far a program is: on a terminal one line that rewrites
// itself, elsewhere a line each time.
//
// What it is not: it does not limit how often a line is shown, and is not for
// results: a failed write is ignored.
//
// One thread. A pipe or terminal whose reader takes nothing does not keep a
// program that a signal stops (common/write_bytes.h).
//
//   ProgressLine line(STDERR_FILENO, isatty(STDERR_FILENO) == 1);
//   line.Show("packing 3 of 8");
//   line.Clear();

#ifndef MILLRACE_COMMON_PROGRAM_PROGRESS_LINE_H_
#define MILLRACE_COMMON_PROGRAM_PROGRESS_LINE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace millrace::program {

class ProgressLine {
 public:
  // `fd` must outlive this.
  ProgressLine(int fd, bool on_terminal) : fd_(fd), on_terminal_(on_terminal) {}
  ProgressLine(const ProgressLine&) = delete;

  // Replaces the line on a terminal, where what does not fit into width() is
  // cut off. Elsewhere writes `text` and a newline.
  void Show(absl::string_view text);
  // Writes one or several whole lines in the place of the line.
  void Print(absl::string_view text);
  // Clears the line of a terminal.
  void Clear();

  bool on_terminal() const { return on_terminal_; }
  // Characters that a line of the terminal holds. Asked of the system each
  // time, because windows change their size.
  size_t width() const;

 private:
  void Write(std::string text);

  const int fd_;
  const bool on_terminal_;
  bool shown_ = false;
  bool unread_ = false;  // after a signal nothing took the output
};

}  // namespace millrace::program

#endif  // MILLRACE_COMMON_PROGRAM_PROGRESS_LINE_H_
