#include "trainer/progress.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace millrace {
namespace {

constexpr absl::Duration kRedraw = absl::Milliseconds(200);

}  // namespace

std::string FormatState(const Progress::State& state) {
  return absl::StrFormat(
      "epoch %d/%d step %d/%d  loss %.4f  %.0f samples/s  waiting %.1f %%",
      state.epoch + 1, state.epochs, state.step, state.steps, state.loss,
      state.samples_per_second, 100 * state.stall_share);
}

bool Progress::Wants(uint64_t step, uint64_t steps) const {
  if (!options_.enabled) return false;
  if (!options_.terminal) {
    return options_.log_every > 0 && step % options_.log_every == 0;
  }
  const absl::Time now = absl::Now();
  if (now < next_ && step != steps) return false;
  next_ = now + kRedraw;
  return true;
}

void Progress::Step(const State& state) {
  if (!options_.enabled) return;
  const std::string text = FormatState(state);
  // \033[K clears the rest of the line.
  std::fputs(absl::StrCat(options_.terminal ? "\r" : "", text,
                          options_.terminal ? "\033[K" : "\n")
                 .c_str(),
             stdout);
  std::fflush(stdout);
}

void Progress::Line(const std::string& text) {
  if (!options_.enabled) return;
  std::fputs(absl::StrCat(options_.terminal ? "\r" : "", text,
                          options_.terminal ? "\033[K\n" : "\n")
                 .c_str(),
             stdout);
  std::fflush(stdout);
}

}  // namespace millrace
