#include "server/data_tool/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace millrace {
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
  const double share =
      std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  const int filled = static_cast<int>(share * kBarWidth);
  const double seconds = absl::ToDoubleSeconds(now - start_);
  absl::FPrintF(stderr, "\r%s [%s%s] %d/%d, %.0f/s, %.1f MB/s ", verb_,
                std::string(filled, '#'), std::string(kBarWidth - filled, '.'),
                done, total_, static_cast<double>(done) / seconds,
                static_cast<double>(bytes) / seconds / 1e6);
  std::fflush(stderr);
}

ToolProgress::~ToolProgress() {
  if (shown_) absl::FPrintF(stderr, "\r\033[K");
}

}  // namespace millrace
