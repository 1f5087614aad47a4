// A short run of a fuzz target with every test run: its seeds, and a fixed
// number of random changes of them, the same in every run.

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace millrace {
namespace {

// Of all targets; those that decode images are slow under sanitizers.
constexpr int kRounds = 4000;

bool Takes(const std::string& input) {
  return TheFuzzTarget().run(reinterpret_cast<const uint8_t*>(input.data()),
                             input.size());
}

TEST(FuzzTarget, TakesEverySeed) {
  const std::vector<std::string> seeds = TheFuzzTarget().seeds();
  ASSERT_FALSE(seeds.empty());
  for (size_t i = 0; i < seeds.size(); ++i) {
    EXPECT_TRUE(Takes(seeds[i])) << "seed " << i;
  }
}

TEST(FuzzTarget, KeepsItsPromisesOnChangedSeeds) {
  const std::vector<std::string> seeds = TheFuzzTarget().seeds();
  std::mt19937_64 random(20240501);
  const auto below = [&](size_t n) { return n == 0 ? 0 : random() % n; };
  int taken = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string input = seeds[below(seeds.size())];
    for (size_t changes = 1 + below(4); changes > 0; --changes) {
      // Often near the start: that is where the structure is.
      const size_t at = below(below(2) == 0 ? 64 : input.size());
      if (at >= input.size()) continue;
      switch (below(7)) {
        case 0:
          input[at] = static_cast<char>(random());
          break;
        case 1:
          input[at] ^= static_cast<char>(1 << below(8));
          break;
        case 2:
          input[at] = '\xFF';
          break;
        case 3:
          input.insert(at, 1 + below(9), static_cast<char>(random() | 0x80));
          break;
        case 4:
          input.erase(at, 1 + below(40));
          break;
        case 5:
          input.resize(at);
          break;
        default: {
          const std::string& other = seeds[below(seeds.size())];
          input.insert(at, other, below(other.size()), below(40));
        }
      }
    }
    if (TheFuzzTarget().repair != nullptr && below(2) == 0) {
      TheFuzzTarget().repair(input);
    }
    taken += Takes(input);
  }
  // Else the changes reach nothing, or nothing is ever refused.
  EXPECT_GT(taken, kRounds / 200);
  EXPECT_LT(taken, kRounds);
}

}  // namespace
}  // namespace millrace
