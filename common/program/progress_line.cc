#include "common/program/progress_line.h"

#include <sys/ioctl.h>

#include "absl/strings/str_cat.h"
#include "common/write_bytes.h"

namespace millrace::program {
namespace {

// Columns of a terminal that does not report its size.
constexpr size_t kUsualColumns = 80;

}  // namespace

size_t ProgressLine::width() const {
  winsize size = {};
  const bool known = ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  // The last column stays free: some terminals begin a new line there.
  return (known ? size.ws_col : kUsualColumns) - 1;
}

void ProgressLine::Show(absl::string_view text) {
  // A line that wraps cannot be rewritten. \033[K clears the rest of a longer
  // line.
  Write(on_terminal_ ? absl::StrCat("\r", text.substr(0, width()), "\033[K")
                     : absl::StrCat(text, "\n"));
  shown_ = on_terminal_;
}

void ProgressLine::Print(absl::string_view text) {
  Write(absl::StrCat(on_terminal_ ? "\r\033[K" : "", text, "\n"));
  shown_ = false;
}

void ProgressLine::Clear() {
  if (shown_) Write("\r\033[K");
  shown_ = false;
}

void ProgressLine::Write(std::string text) {
  if (unread_) return;
  absl::string_view rest = text;
  unread_ = absl::IsCancelled(WriteBytes(fd_, "the progress line", &rest));
}

}  // namespace millrace::program
