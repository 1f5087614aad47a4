#include "client/prefetch/hedge_policy.h"

#include <algorithm>

namespace millrace::prefetch {
namespace {

constexpr double kQuantile = 0.95;
// When all steps take about as long, the quantile is hardly above the median:
// without a margin, one step in twenty would be hedged for nothing.
constexpr double kMargin = 1.5;
// When more than one step in twenty is slow, the quantile is the time of a slow
// one.
constexpr double kMedians = 4;
// Number of steps between two measurements.
constexpr size_t kMeasureEvery = 8;

}  // namespace

void HedgePolicy::Delivered(absl::Duration latency) {
  tokens_ = std::min(kBurst, tokens_ + share_);
  latencies_[next_] = latency;
  next_ = (next_ + 1) % kMemory;
  known_ = std::min(known_ + 1, kMemory);
  if (known_ >= kEnough && next_ % kMeasureEvery == 0) Measure();
}

void HedgePolicy::Measure() {
  std::array<absl::Duration, kMemory> sorted;
  const auto end = std::copy(latencies_.begin(), latencies_.begin() + known_,
                             sorted.begin());
  const auto high = sorted.begin() + static_cast<size_t>(kQuantile * known_);
  std::nth_element(sorted.begin(), high, end);
  const auto middle = sorted.begin() + known_ / 2;
  std::nth_element(sorted.begin(), middle, high);
  delay_ = std::max(floor_, std::min(*high * kMargin, *middle * kMedians));
}

}  // namespace millrace::prefetch
