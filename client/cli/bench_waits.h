// BenchWaits collects how long calls of Next() took, in two histograms: calls
// that return the first batch of an epoch, and all others. A pause at the
// border of two epochs shows in the comparison.
//
// It does not keep single waits: memory does not grow with the number of calls.
// A histogram has 64 buckets for every doubling, as HdrHistogram
// (hdrhistogram.org), so percentiles are within 1 % of the exact value. The
// longest wait is exact.
//
// Plain data, one thread at a time. Up to 45 KB.
//
//   BenchWaits waits;
//   waits.Add(batch.position.step == 0, seconds);
//   double median = waits.borders().Percentile(50);

#ifndef MILLRACE_CLIENT_CLI_BENCH_WAITS_H_
#define MILLRACE_CLIENT_CLI_BENCH_WAITS_H_

#include <cstdint>
#include <vector>

namespace millrace::cli {

// Times in seconds.
class WaitHistogram {
 public:
  void Add(double seconds);
  void Merge(const WaitHistogram& other);

  uint64_t count() const { return count_; }
  double longest() const { return longest_; }

  // The smallest time that at least `percent` % of all waits did not exceed
  // (nearest rank). NaN without a wait.
  double Percentile(double percent) const;

 private:
  static constexpr int kBits = 6;  // 64 buckets a doubling

  static uint64_t BucketOf(uint64_t nanoseconds);
  // The middle of the bucket.
  static double NanosecondsOf(uint64_t bucket);

  std::vector<uint64_t> buckets_;
  uint64_t count_ = 0;
  double longest_ = 0;
};

class BenchWaits {
 public:
  void Add(bool at_border, double seconds) {
    (at_border ? borders_ : inside_).Add(seconds);
  }
  void Merge(const BenchWaits& other) {
    borders_.Merge(other.borders_);
    inside_.Merge(other.inside_);
  }

  const WaitHistogram& borders() const { return borders_; }
  const WaitHistogram& inside() const { return inside_; }

 private:
  WaitHistogram borders_;
  WaitHistogram inside_;
};

}  // namespace millrace::cli

#endif  // MILLRACE_CLIENT_CLI_BENCH_WAITS_H_
