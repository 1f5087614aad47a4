#include "server/plan/keys.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

namespace millrace::plan {
namespace {

// A key that changes gives other batches: the values are part of the content
// revision.
TEST(Keys, AreTheSameForEver) {
  EXPECT_EQ(PermutationKey(0, 0, 1), 0xd300120a5ea35cacu);
  EXPECT_EQ(PermutationKey(1, 2, 60000), 0xc700feb7c2f1b2d2u);
  EXPECT_EQ(SubsetKey(1, 60000), 0x0a9299836f8b2c82u);
  EXPECT_EQ(SampleKey(1, 2, 0, 17, 0), 0xac034b08c8fd19fbu);
}

TEST(Keys, EveryArgumentCounts) {
  const std::set<uint64_t> keys = {
      SampleKey(0, 0, 0, 0, 0), SampleKey(1, 0, 0, 0, 0),
      SampleKey(0, 1, 0, 0, 0), SampleKey(0, 0, 1, 0, 0),
      SampleKey(0, 0, 0, 1, 0), SampleKey(0, 0, 0, 0, 1),
      PermutationKey(0, 0, 0),  PermutationKey(1, 0, 0),
      PermutationKey(0, 1, 0),  PermutationKey(0, 0, 1),
      SubsetKey(0, 0),          SubsetKey(1, 0),
      SubsetKey(0, 1)};
  EXPECT_EQ(keys.size(), 13u);
}

TEST(Keys, SamplesOfAnEpochNeverShareAKey) {
  std::set<uint64_t> keys;
  for (uint64_t index = 0; index < 100'000; ++index) {
    keys.insert(SampleKey(5, 3, 0, index, 0));
  }
  EXPECT_EQ(keys.size(), 100'000u);
}

// Turning any bit of any argument turns each bit of the key with probability
// one half.
TEST(Keys, AvalancheFromEveryArgument) {
  constexpr int kTrials = 2000;
  for (int argument = 0; argument < 5; ++argument) {
    for (int bit = 0; bit < 64; bit += 7) {
      double turned = 0;
      int per_output_bit[64] = {};
      for (int t = 0; t < kTrials; ++t) {
        uint64_t a[5];
        for (int i = 0; i < 5; ++i) a[i] = Mix64(t * 5 + i + 1);
        const uint64_t before = SampleKey(a[0], a[1], a[2], a[3], a[4]);
        a[argument] ^= uint64_t{1} << bit;
        const uint64_t change =
            before ^ SampleKey(a[0], a[1], a[2], a[3], a[4]);
        turned += std::popcount(change);
        for (int b = 0; b < 64; ++b) per_output_bit[b] += change >> b & 1;
      }
      EXPECT_NEAR(turned / kTrials, 32, 0.6);
      for (int count : per_output_bit) {
        // Six standard deviations of a fair coin.
        EXPECT_NEAR(count, kTrials / 2, 6 * 22.4);
      }
    }
  }
}

}  // namespace
}  // namespace millrace::plan
