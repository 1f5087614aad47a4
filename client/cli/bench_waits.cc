#include "client/cli/bench_waits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace millrace::cli {
namespace {

// A day, which is longer than any call of Next().
constexpr double kLongest = 86400;

}  // namespace

uint64_t WaitHistogram::BucketOf(uint64_t nanoseconds) {
  // Up to twice the buckets of a doubling, each number has its own bucket.
  const int shift =
      std::max(0, static_cast<int>(std::bit_width(nanoseconds)) - kBits - 1);
  return (static_cast<uint64_t>(shift) << kBits) + (nanoseconds >> shift);
}

double WaitHistogram::NanosecondsOf(uint64_t bucket) {
  const uint64_t shift = std::max<uint64_t>(1, bucket >> kBits) - 1;
  const uint64_t first = (bucket - (shift << kBits)) << shift;
  return static_cast<double>(first) +
         (static_cast<double>(uint64_t{1} << shift) - 1) / 2;
}

void WaitHistogram::Add(double seconds) {
  seconds = std::clamp(seconds, 0.0, kLongest);
  const uint64_t bucket =
      BucketOf(static_cast<uint64_t>(std::llround(1e9 * seconds)));
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  ++buckets_[bucket];
  ++count_;
  longest_ = std::max(longest_, seconds);
}

void WaitHistogram::Merge(const WaitHistogram& other) {
  buckets_.resize(std::max(buckets_.size(), other.buckets_.size()));
  for (size_t i = 0; i < other.buckets_.size(); ++i) {
    buckets_[i] += other.buckets_[i];
  }
  count_ += other.count_;
  longest_ = std::max(longest_, other.longest_);
}

double WaitHistogram::Percentile(double percent) const {
  if (count_ == 0) return std::numeric_limits<double>::quiet_NaN();
  const auto rank = std::max<uint64_t>(
      1, static_cast<uint64_t>(
             std::ceil(percent / 100 * static_cast<double>(count_))));
  uint64_t so_far = 0;
  for (uint64_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    so_far += buckets_[bucket];
    if (so_far >= rank) {
      return std::min(longest_, 1e-9 * NanosecondsOf(bucket));
    }
  }
  return longest_;
}

}  // namespace millrace::cli
