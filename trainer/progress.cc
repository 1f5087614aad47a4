#include "trainer/progress.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/count_text.h"

namespace millrace::trainer {
namespace {

constexpr absl::Duration kRedraw = absl::Milliseconds(200);
// Max columns of the bar, with its brackets.
constexpr size_t kMinBar = 10;
constexpr size_t kMaxBar = 42;

// The values after the position in the epoch, the most important first.
std::vector<std::string> Parts(const Progress::State& state) {
  return {absl::StrFormat("  loss %.4f", state.loss),
          absl::StrCat("  ", RateText(state.samples_per_second), " samples/s"),
          absl::StrFormat("  %s left", FormatClock(state.seconds_left)),
          absl::StrFormat("  waiting %.1f %%", 100 * state.stall_share)};
}

std::string Bar(const Progress::State& state, size_t width) {
  const size_t cells = width - 2;
  const double done = state.steps > 0
                          ? std::min(1.0, static_cast<double>(state.step) /
                                              static_cast<double>(state.steps))
                          : 0;
  const auto full = static_cast<size_t>(done * static_cast<double>(cells));
  std::string bar(full, '=');
  if (full < cells) bar += '>';
  bar.resize(cells, ' ');
  return absl::StrCat("[", bar, "]");
}

}  // namespace

std::string FormatClock(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "-";
  const auto all = static_cast<int64_t>(std::llround(seconds));
  const int64_t hours = all / 3600;
  if (hours > 0) {
    return absl::StrFormat("%d:%02d:%02d", hours, all / 60 % 60, all % 60);
  }
  return absl::StrFormat("%d:%02d", all / 60, all % 60);
}

std::string FormatState(const Progress::State& state) {
  std::string text = absl::StrFormat("epoch %d/%d step %d/%d", state.epoch + 1,
                                     state.epochs, state.step, state.steps);
  for (const std::string& part : Parts(state)) text += part;
  return text;
}

std::string FormatBar(const Progress::State& state, size_t width) {
  const std::string epoch =
      absl::StrFormat("epoch %d/%d ", state.epoch + 1, state.epochs);
  const std::string steps = absl::StrFormat("%d/%d", state.step, state.steps);
  size_t left = width - std::min(width, epoch.size() + steps.size());
  std::string rest;
  for (const std::string& part : Parts(state)) {
    if (part.size() > left) break;
    rest += part;
    left -= part.size();
  }
  std::string bar;
  if (left > kMinBar) {
    bar = absl::StrCat(Bar(state, std::min(left - 1, kMaxBar)), " ");
  }
  return absl::StrCat(epoch, bar, steps, rest).substr(0, width);
}

bool Progress::Wants(uint64_t step, uint64_t steps) const {
  if (!options_.enabled) return false;
  if (!options_.terminal) {
    return options_.log_every > 0 && step % options_.log_every == 0;
  }
  if (SteadyTime::clock::now() < next_ && step != steps) return false;
  next_ = SteadyDeadline(kRedraw);
  return true;
}

void Progress::Step(const State& state) {
  if (!options_.enabled) return;
  line_.Show(options_.terminal ? FormatBar(state, line_.width())
                               : FormatState(state));
}

void Progress::Line(const std::string& text) {
  if (options_.enabled) line_.Print(text);
}

}  // namespace millrace::trainer
