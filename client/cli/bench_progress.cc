#include "client/cli/bench_progress.h"

#include <sys/ioctl.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace millrace::cli {
namespace {

// Columns of a terminal that does not report its size.
constexpr size_t kUsualColumns = 80;

size_t Columns(std::FILE* out) {
  winsize size = {};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kUsualColumns;
  }
  return size.ws_col;
}

}  // namespace

void BenchProgress::Round(uint32_t round, uint32_t rounds,
                          absl::string_view setting) {
  std::string text =
      absl::StrCat("round ", round, " of ", rounds, ": ", setting);
  if (on_terminal_) {
    // A line that wraps cannot be rewritten, and some terminals begin a new
    // line at the last column. \033[K clears the rest of a longer line.
    text = absl::StrCat("\r", text.substr(0, Columns(out_) - 1), "\033[K");
  } else {
    text += '\n';
  }
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
  shown_ = on_terminal_;
}

void BenchProgress::Clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", out_);
  std::fflush(out_);
  shown_ = false;
}

}  // namespace millrace::cli
