#include "server/augment/beta_distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <vector>

namespace millrace::augment {
namespace {

std::vector<double> Draw(double alpha, int n) {
  std::vector<double> values;
  for (int i = 0; i < n; ++i) {
    CounterRandom random(1000 + i, /*place=*/7);
    values.push_back(SampleSymmetricBeta(alpha, random));
  }
  return values;
}

// Kolmogorov and Smirnov: sqrt(n) times the largest distance stays below 1.95
// in 999 of 1000 samples of the right distribution. The keys are fixed.
double KolmogorovSmirnov(std::vector<double> values,
                         const std::function<double(double)>& cdf) {
  std::sort(values.begin(), values.end());
  const double n = static_cast<double>(values.size());
  double distance = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double f = cdf(values[i]);
    distance = std::max({distance, f - static_cast<double>(i) / n,
                         static_cast<double>(i + 1) / n - f});
  }
  return distance * std::sqrt(n);
}

TEST(SymmetricBeta, HasTheDistributionWhereItHasAClosedForm) {
  constexpr int kDraws = 50000;
  EXPECT_LT(KolmogorovSmirnov(Draw(1, kDraws), [](double x) { return x; }),
            1.95);
  EXPECT_LT(
      KolmogorovSmirnov(Draw(0.5, kDraws),
                        [](double x) { return 2 / M_PI * asin(sqrt(x)); }),
      1.95);
  EXPECT_LT(KolmogorovSmirnov(Draw(2, kDraws),
                              [](double x) { return x * x * (3 - 2 * x); }),
            1.95);
  EXPECT_LT(KolmogorovSmirnov(
                Draw(3, kDraws),
                [](double x) { return x * x * x * (10 - 15 * x + 6 * x * x); }),
            1.95);
  // The test can fail: alpha 1.05 is no uniform distribution.
  EXPECT_GT(KolmogorovSmirnov(Draw(1.1, kDraws), [](double x) { return x; }),
            1.95);
}

TEST(SymmetricBeta, HasTheMomentsOfEveryAlpha) {
  constexpr int kDraws = 50000;
  for (double alpha :
       {1e-300, 0.001, 0.01, 0.1, 0.2, 0.4, 0.8, 1.0, 5.0, 50.0, 1000.0}) {
    double mean = 0;
    double square = 0;
    for (double x : Draw(alpha, kDraws)) {
      ASSERT_GE(x, 0);
      ASSERT_LE(x, 1);
      mean += x;
      square += (x - 0.5) * (x - 0.5);
    }
    mean /= kDraws;
    square /= kDraws;
    const double variance = 1 / (4 * (2 * alpha + 1));
    // 4 standard errors of the mean; of the variance, whose own deviation is
    // at most the square root of 2 times as large.
    EXPECT_NEAR(mean, 0.5, 4 * std::sqrt(variance / kDraws)) << alpha;
    EXPECT_NEAR(square / variance, 1, 4 * std::sqrt(2.0 / kDraws)) << alpha;
  }
}

// The bits are part of the content: another compiler, CPU or option must not
// change them.
TEST(SymmetricBeta, HasTheseBits) {
  CounterRandom random(42, 3);
  EXPECT_EQ(std::bit_cast<uint64_t>(SampleSymmetricBeta(0.2, random)),
            4573530251828370347u);
  EXPECT_EQ(std::bit_cast<uint64_t>(SampleSymmetricBeta(1.0, random)),
            4602190380137222809u);
  EXPECT_EQ(std::bit_cast<uint64_t>(SampleSymmetricBeta(7.5, random)),
            4603552236920848324u);
}

}  // namespace
}  // namespace millrace::augment
