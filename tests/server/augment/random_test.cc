#include "server/augment/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <vector>

namespace millrace::augment {
namespace {

using Block = std::array<uint32_t, 4>;

// The known-answer vectors that Random123 publishes for philox4x32, 10 rounds.
TEST(Philox4x32, GivesThePublishedVectors) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                       {0xffffffff, 0xffffffff}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CounterRandom, DependsOnKeyPlaceAndDrawAlone) {
  CounterRandom a(42, 1);
  CounterRandom b(42, 1);
  std::set<uint64_t> seen;
  for (int i = 0; i < 100; ++i) {
    const uint64_t x = a.Next64();
    EXPECT_EQ(x, b.Next64());
    seen.insert(x);
  }
  CounterRandom other_place(42, 2);
  CounterRandom other_key(43, 1);
  CounterRandom high_key(uint64_t{42} | uint64_t{1} << 32, 1);
  for (int i = 0; i < 100; ++i) {
    seen.insert(other_place.Next64());
    seen.insert(other_key.Next64());
    seen.insert(high_key.Next64());
  }
  EXPECT_EQ(seen.size(), 400u);
}

TEST(CounterRandom, UniformIsFlatOnTheUnitInterval) {
  CounterRandom random(7, 0);
  constexpr int kDraws = 100000;
  std::vector<int> bins(20);
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.Uniform();
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ++bins[static_cast<int>(u * 20)];
    sum += u;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.005);
  double chi_square = 0;
  for (int n : bins) {
    const double expected = kDraws / 20.0;
    chi_square += (n - expected) * (n - expected) / expected;
  }
  EXPECT_LT(chi_square, 43.8);  // 19 degrees of freedom, p = 0.001
}

TEST(CounterRandom, BelowReachesEveryValueEvenly) {
  CounterRandom random(8, 0);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) {
    const uint64_t n = random.Below(7);
    ASSERT_LT(n, 7u);
    ++counts[n];
  }
  for (int n : counts) EXPECT_NEAR(n, 10000, 400);
  EXPECT_EQ(random.Below(1), 0u);
}

}  // namespace
}  // namespace millrace::augment
