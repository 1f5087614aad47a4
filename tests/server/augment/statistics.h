// Tests of drawn numbers against the distribution that they should have. The
// keys of the draws are fixed, so a result does not change from run to run; a
// right distribution fails the limits with a probability of about 0.001.

#ifndef MILLRACE_TESTS_SERVER_AUGMENT_STATISTICS_H_
#define MILLRACE_TESTS_SERVER_AUGMENT_STATISTICS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace millrace::augment {

// Kolmogorov-Smirnov: sqrt(n) times the largest distance between the share of
// the samples up to x and the uniform distribution's. Below kKolmogorovLimit.
inline double UniformDistance(std::vector<double> samples, double low,
                              double high) {
  std::sort(samples.begin(), samples.end());
  const double n = static_cast<double>(samples.size());
  double distance = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const double share = (samples[i] - low) / (high - low);
    distance = std::max({distance, share - static_cast<double>(i) / n,
                         static_cast<double>(i + 1) / n - share});
  }
  return distance * std::sqrt(n);
}

// The same between two sets of samples; values may repeat.
inline double TwoSampleDistance(std::vector<double> a, std::vector<double> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  const double n = static_cast<double>(a.size());
  const double m = static_cast<double>(b.size());
  double distance = 0;
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    const double x = std::min(a[i], b[j]);
    while (i < a.size() && a[i] == x) ++i;
    while (j < b.size() && b[j] == x) ++j;
    distance = std::max(distance, std::abs(static_cast<double>(i) / n -
                                           static_cast<double>(j) / m));
  }
  return distance * std::sqrt(n * m / (n + m));
}

inline constexpr double kKolmogorovLimit = 1.95;  // p = 0.001

// Chi-square of counts that should all be equal, as a distance from its mean in
// standard deviations. Below kChiSquareLimit.
inline double EvennessDistance(const std::vector<int64_t>& counts) {
  double total = 0;
  for (int64_t n : counts) total += static_cast<double>(n);
  const double expected = total / static_cast<double>(counts.size());
  double chi_square = 0;
  for (int64_t n : counts) {
    const double off = static_cast<double>(n) - expected;
    chi_square += off * off / expected;
  }
  const double freedom = static_cast<double>(counts.size() - 1);
  return (chi_square - freedom) / std::sqrt(2 * freedom);
}

inline constexpr double kChiSquareLimit = 4;

// How often something of probability p happened, as a distance from its mean in
// standard deviations. Between -kShareLimit and kShareLimit.
inline double ShareDistance(int64_t happened, int64_t draws, double p) {
  const double n = static_cast<double>(draws);
  return (static_cast<double>(happened) - n * p) / std::sqrt(n * p * (1 - p));
}

inline constexpr double kShareLimit = 3.3;

}  // namespace millrace::augment

#endif  // MILLRACE_TESTS_SERVER_AUGMENT_STATISTICS_H_
