#include "server/data_tool/progress.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
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
      start_(absl::Now()),
      next_(start_ + kInterval),
      line_(STDERR_FILENO, isatty(STDERR_FILENO) == 1) {}

void ToolProgress::Update(int64_t done, int64_t bytes) {
  if (!line_.on_terminal()) return;
  const absl::Time now = absl::Now();
  if (now < next_) return;
  next_ = now + kInterval;
  line_.Show(ToolProgressText(verb_, done, total_, bytes,
                              absl::ToDoubleSeconds(now - start_)));
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
