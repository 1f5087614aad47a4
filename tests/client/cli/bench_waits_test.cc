#include "client/cli/bench_waits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace millrace::cli {
namespace {

TEST(WaitHistogram, TellsThePercentilesOfWhatWasAdded) {
  WaitHistogram waits;
  for (int i = 1; i <= 100; ++i) waits.Add(1e-9 * i);  // exact so far down
  EXPECT_EQ(waits.count(), 100u);
  EXPECT_DOUBLE_EQ(waits.longest(), 100e-9);
  EXPECT_NEAR(waits.Percentile(50), 50e-9, 1e-12);
  EXPECT_NEAR(waits.Percentile(99), 99e-9, 1e-12);
  EXPECT_NEAR(waits.Percentile(100), 100e-9, 1e-12);
  EXPECT_NEAR(waits.Percentile(0), 1e-9, 1e-12);
}

TEST(WaitHistogram, IsWithinOnePercentOfTheSortedTimes) {
  std::mt19937_64 random(1);
  // From 100 ns to about an hour, as many in each decade.
  std::uniform_real_distribution<> decade(-7, 3.5);
  std::vector<double> times;
  WaitHistogram waits;
  WaitHistogram half[2];
  for (int i = 0; i < 9999; ++i) {
    times.push_back(std::pow(10, decade(random)));
    waits.Add(times.back());
    half[i % 2].Add(times.back());
  }
  std::sort(times.begin(), times.end());
  half[0].Merge(half[1]);
  for (const double percent : {0.1, 1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
    const size_t rank =
        static_cast<size_t>(std::ceil(percent / 100 * times.size())) - 1;
    EXPECT_NEAR(waits.Percentile(percent) / times[rank], 1, 0.01) << percent;
    EXPECT_EQ(half[0].Percentile(percent), waits.Percentile(percent));
  }
  EXPECT_EQ(waits.longest(), times.back());
  EXPECT_EQ(half[0].longest(), times.back());
  EXPECT_EQ(half[0].count(), 9999u);
}

TEST(WaitHistogram, OfNothingThereIsNoPercentile) {
  WaitHistogram waits;
  EXPECT_TRUE(std::isnan(waits.Percentile(50)));
  waits.Merge(WaitHistogram());
  EXPECT_EQ(waits.count(), 0u);
  waits.Add(-1);  // a clock that went back
  waits.Add(0);
  EXPECT_EQ(waits.Percentile(50), 0);
  EXPECT_EQ(waits.Percentile(100), 0);
}

TEST(BenchWaits, KeepsBordersApart) {
  BenchWaits one;
  for (int i = 0; i < 99; ++i) one.Add(false, 0.001);
  one.Add(true, 0.5);
  BenchWaits other;
  other.Add(true, 0.25);
  other.Add(true, 0.125);
  other.Add(false, 0.002);
  one.Merge(other);
  EXPECT_EQ(one.borders().count(), 3u);
  EXPECT_EQ(one.inside().count(), 100u);
  EXPECT_EQ(one.borders().longest(), 0.5);
  EXPECT_NEAR(one.borders().Percentile(50), 0.25, 0.0025);
  EXPECT_NEAR(one.inside().Percentile(99), 0.001, 0.00001);
  EXPECT_EQ(one.inside().longest(), 0.002);
}

}  // namespace
}  // namespace millrace::cli
