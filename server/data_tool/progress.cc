#include "server/data_tool/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/count_text.h"
#include "server/data_tool/report.h"

namespace millrace::data_tool {
namespace {

constexpr absl::Duration kInterval = absl::Milliseconds(100);
constexpr int kBarWidth = 30;

}  // namespace

ToolProgress::ToolProgress(std::string verb, int64_t total)
    : verb_(std::move(verb)),
      total_(total),
      on_terminal_(isatty(STDERR_FILENO) == 1),
      start_(absl::Now()),
      next_(start_ + kInterval) {}

void ToolProgress::Update(int64_t done, int64_t bytes) {
  if (!on_terminal_) return;
  const absl::Time now = absl::Now();
  if (now < next_) return;
  next_ = now + kInterval;
  shown_ = true;
  // \033[K clears the rest of a longer line.
  absl::FPrintF(stderr, "\r%s\033[K",
                ToolProgressText(verb_, done, total_, bytes,
                                 absl::ToDoubleSeconds(now - start_)));
  std::fflush(stderr);
}

ToolProgress::~ToolProgress() {
  if (shown_) absl::FPrintF(stderr, "\r\033[K");
}

std::string ToolProgressText(absl::string_view verb, int64_t done,
                             int64_t total, int64_t bytes, double seconds) {
  const double share =
      std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const int filled = static_cast<int>(share * kBarWidth);
  std::string text =
      absl::StrCat(verb, " [", std::string(filled, '#'),
                   std::string(kBarWidth - filled, '.'), "] ",
                   GroupedText(static_cast<uint64_t>(done)), "/",
                   GroupedText(static_cast<uint64_t>(total)), ", ",
                   RateText(static_cast<double>(done) / seconds), "/s");
  if (bytes > 0) {
    const double rate = static_cast<double>(bytes) / seconds;
    absl::StrAppend(&text, ", ", SizeText(static_cast<int64_t>(rate)), "/s");
  }
  return text;
}

}  // namespace millrace::data_tool
