#include "client/prefetch/window_tuner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/count_text.h"

namespace millrace::prefetch {
namespace {

// Min length of an interval, and max length when batches are rare.
constexpr double kMinSeconds = 1;
constexpr double kMaxSeconds = 10;
constexpr uint64_t kMinBatches = 4;
constexpr uint64_t kFewBatches = 2;  // after kMaxSeconds

// A consumer that waits for a smaller share of its time is not held up.
constexpr double kWaits = 0.02;

// A trial with more is kept when batches come faster by this share and by this
// multiple of the noise.
constexpr double kWorthMore = 0.06;
constexpr double kWorthNoise = 1.5;
// It is also kept when at most this share of the wait is left.
constexpr double kLessWaiting = 0.5;
// A trial with less is kept when batches are slower than the best pace by at
// most this share: for a consumer that waits anyway, and for one that did not.
constexpr double kAsFast = 0.05;
constexpr double kAsCalm = 0.015;
// Size of a trial with less, as a share of the window: first, and after that
// was too small.
constexpr double kMuchLess = 0.5;
constexpr double kLess = 0.75;

// The load has changed when the pace differs by this share and by this multiple
// of the noise, in four intervals in a row; by twice as much, in two.
constexpr double kOtherLoad = 0.15;
constexpr double kOtherNoise = 3;
constexpr uint32_t kOtherIntervals = 4;

// A consumer that never waits must do so for this long.
constexpr double kCalmSeconds = 4;
constexpr uint32_t kCalmIntervals = 2;

// Pause after a failed trial; twice as long after each further one. A change of
// load leaves only the short pause.
constexpr double kMorePause = 10;
constexpr double kLessPause = 20;
constexpr double kMaxPause = 120;
constexpr double kShortPause = 10;
// No trial with more after a server was short of memory.
constexpr double kMemoryPause = 30;

constexpr double kGain = 0.3;  // weight of the newest in a running mean
constexpr double kMaxNoise = 0.2;
constexpr double kFirstNoise = 0.05;

constexpr absl::string_view kChecking = "checking that throughput holds";

}  // namespace

WindowTuner::WindowTuner(const Options& options)
    : options_(options),
      window_(std::clamp<uint32_t>(options.initial, 1, options.max)),
      settle_batches_(window_) {
  more_.next = kMorePause;
  less_.next = kLessPause;
  less_by_ = kMuchLess;
  noise_ = kFirstNoise;
  more_.failed = less_.failed = -kShortPause;
}

void WindowTuner::EndCalm() {
  calm_ = 0;
  calm_seconds_ = 0;
}

double WindowTuner::Ratio(const Pace& a, const Pace& b) {
  const double own = (a.own + b.own) / 2;
  // One microsecond keeps the ratio of two times near 0 near 1.
  return (own + a.wait + 1e-6) / (own + b.wait + 1e-6);
}

uint32_t WindowTuner::min_window() const {
  // Two for each server: one in the making, and one that waits for it.
  return std::min(options_.max, std::max<uint32_t>(2, 2 * servers_));
}

WindowTuner::Next WindowTuner::Look(uint64_t batches, double seconds) {
  if (settling_) {
    // Until the batches that were requested before the change have passed.
    if (batches < settle_batches_ && seconds < kMaxSeconds) return Next::kGoOn;
    settling_ = false;
    age_ += seconds;
    return Next::kRestart;
  }
  if (seconds < kMinSeconds) return Next::kGoOn;
  if (batches >= std::max<uint64_t>(kMinBatches, window_)) {
    return Next::kDecide;
  }
  return batches >= kFewBatches && seconds >= kMaxSeconds ? Next::kDecide
                                                          : Next::kGoOn;
}

void WindowTuner::Disturbed() {
  settling_ = true;
  settle_batches_ = window_;
}

bool WindowTuner::Change(uint32_t window, std::string reason) {
  settling_ = true;
  settle_batches_ = std::max(window, window_);
  window_ = window;
  reason_ = std::move(reason);
  ++changes_;
  EndCalm();
  return true;
}

bool WindowTuner::Decide(const WindowInterval& seen) {
  age_ += seen.seconds;
  const double batches = static_cast<double>(seen.batches);
  Pace pace;
  pace.wait = std::min(seen.stall_seconds, seen.seconds) / batches;
  pace.own = seen.seconds / batches - pace.wait;
  switch (std::exchange(trial_, Trial::kNone)) {
    case Trial::kMore:
      return JudgeMore(seen, pace);
    case Trial::kLess:
      return JudgeLess(seen, pace);
    case Trial::kNone:
      return Steady(seen, pace);
  }
  return false;
}

bool WindowTuner::JudgeMore(const WindowInterval& seen, const Pace& pace) {
  const double gain = Ratio(base_, pace) - 1;
  // For a consumer that mostly works, little can be gained, and all of it
  // counts.
  const bool calmer =
      pace.wait <= kLessWaiting * base_.wait && gain >= kWaits / 2;
  const bool faster = gain >= std::max(kWorthMore, kWorthNoise * noise_);
  if (seen.servers_lack_memory) lacked_memory_until_ = age_ + kMemoryPause;
  if (seen.servers_lack_memory || (!faster && !calmer)) {
    Fail(&more_);
    std::string reason =
        seen.servers_lack_memory
            ? absl::StrCat("back to ", back_,
                           ", because servers are short of memory")
            : absl::StrCat("back to ", back_, ", because ", window_,
                           " was not faster");
    return Change(back_, std::move(reason));
  }
  const std::string gained = absl::StrFormat("%u was %.2g times as fast as %u",
                                             window_, 1 + gain, back_);
  BeginLoad(seen, pace);
  // The window before the trial was too small.
  less_.failed = age_;
  less_.until = age_ + less_.next;
  less_by_ = kLess;
  if (pace.wait_share() <= kWaits || window_ >= options_.max ||
      seen.servers_are_busy) {
    return false;
  }
  TryMore(pace);
  absl::StrAppend(&reason_, ", and ", gained);
  return true;
}

bool WindowTuner::JudgeLess(const WindowInterval& seen, const Pace& pace) {
  const double loss = Ratio(pace, reference_) - 1;
  if (loss > (waited_ ? std::max(kAsFast, noise_) : kAsCalm)) {
    if (std::exchange(less_by_, kLess) == kMuchLess && waited_) {
      less_.until = age_ + kShortPause;
    } else {
      Fail(&less_);
    }
    return Change(back_, absl::StrCat("back to ", back_, ", because ", window_,
                                      " was slower"));
  }
  Follow(pace);
  // The larger window before the trial gained nothing.
  more_.until = std::max(more_.until, age_ + more_.next);
  return Choose(seen, pace);
}

void WindowTuner::Fail(Pause* pause) {
  pause->failed = age_;
  pause->until = age_ + pause->next;
  pause->next = std::min(kMaxPause, 2 * pause->next);
}

void WindowTuner::Shorten(Pause* pause, double next) {
  pause->until =
      std::min(pause->until, std::max(age_, pause->failed + kShortPause));
  pause->next = next;
}

bool WindowTuner::LoadHasChanged(const WindowInterval& seen, const Pace& pace) {
  if (!base_known_ || seen.servers != servers_) return true;
  const double differs = std::max(kOtherLoad, kOtherNoise * noise_);
  const double ratio = Ratio(pace, reference_);
  const double longer = std::max(pace.sum(), reference_.sum());
  // The difference of the pace, or of the consumer's own part in it.
  const double by =
      std::max(std::max(ratio, 1 / ratio) - 1,
               std::abs(pace.own - reference_.own) / std::max(1e-6, longer));
  others_ = by > 2 * differs ? others_ + 2 : by > differs ? others_ + 1 : 0;
  return others_ >= kOtherIntervals;
}

void WindowTuner::BeginLoad(const WindowInterval& seen, const Pace& pace) {
  servers_ = seen.servers;
  reference_ = pace;
  base_ = pace;
  base_known_ = true;
  others_ = 0;
  Shorten(&more_, kMorePause);
}

bool WindowTuner::Steady(const WindowInterval& seen, const Pace& pace) {
  if (LoadHasChanged(seen, pace)) {
    BeginLoad(seen, pace);
    Shorten(&less_, kLessPause);
    less_by_ = kMuchLess;
  } else if (others_ > 0) {
    // Perhaps another load: the next interval decides.
    return false;
  } else {
    Follow(pace);
  }
  return Choose(seen, pace);
}

void WindowTuner::Follow(const Pace& pace) {
  const double differs = std::abs(Ratio(pace, base_) - 1);
  noise_ += kGain * (std::min(kMaxNoise, differs) - noise_);
  base_.own += kGain * (pace.own - base_.own);
  base_.wait += kGain * (pace.wait - base_.wait);
  if (Ratio(base_, reference_) < 1) reference_ = base_;
}

bool WindowTuner::Choose(const WindowInterval& seen, const Pace& pace) {
  if (window_ < min_window()) {
    return Change(min_window(), CountText(servers_, "server is in use",
                                          "servers are in use"));
  }
  const uint32_t floor = std::max(min_window(), options_.cheap);
  const uint32_t fewer = static_cast<uint32_t>(less_by_ * window_);
  if (seen.servers_lack_memory) {
    lacked_memory_until_ = age_ + kMemoryPause;
    return fewer >= min_window() &&
           Change(fewer, "servers are short of memory");
  }
  if (pace.wait_share() > kWaits) {
    EndCalm();
    if (window_ < options_.max && !seen.servers_are_busy &&
        age_ >= std::max(more_.until, lacked_memory_until_)) {
      return TryMore(base_);
    }
    if (fewer >= floor && age_ >= less_.until) {
      waited_ = true;
      return TryLess(fewer, std::string(kChecking));
    }
    return false;
  }

  calm_in_hand_ =
      calm_ == 0 ? seen.min_in_hand : std::min(calm_in_hand_, seen.min_in_hand);
  ++calm_;
  calm_seconds_ += seen.seconds;
  if (calm_ < kCalmIntervals || calm_seconds_ < kCalmSeconds ||
      age_ < less_.until) {
    return false;
  }
  const uint64_t in_hand = calm_in_hand_;
  EndCalm();
  // The batch that it takes, and a margin for waits that were not seen yet.
  const uint64_t margin = 3 + window_ / 8;
  if (in_hand <= margin) {
    // The servers are just as fast as the consumer: batches that are not ready
    // here queue at the servers.
    if (!seen.servers_are_busy || fewer < floor) return false;
    waited_ = false;
    return TryLess(fewer,
                   absl::StrCat("the servers are always busy; ", kChecking));
  }
  const uint32_t enough =
      std::max(floor, window_ - static_cast<uint32_t>(std::min<uint64_t>(
                                    window_, in_hand - margin)));
  if (enough >= window_) return false;
  waited_ = false;
  return TryLess(
      enough, absl::StrCat(in_hand, " batches were always ready; ", kChecking));
}

bool WindowTuner::TryMore(const Pace& before) {
  base_ = before;
  back_ = window_;
  trial_ = Trial::kMore;
  return Change(std::min(options_.max, std::max(2 * window_, min_window())),
                absl::StrFormat("the consumer waited %.0f %% of the time",
                                100 * before.wait_share()));
}

bool WindowTuner::TryLess(uint32_t window, std::string reason) {
  back_ = window_;
  trial_ = Trial::kLess;
  return Change(window, std::move(reason));
}

}  // namespace millrace::prefetch
