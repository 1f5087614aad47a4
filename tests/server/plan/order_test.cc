#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "proto/names.h"
#include "proto/pipeline.pb.h"
#include "server/plan/epoch_order.h"
#include "server/plan/fast_divide.h"
#include "server/plan/keys.h"
#include "server/plan/permutation.h"
#include "server/plan/subset.h"

namespace millrace::plan {
namespace {

Source WithSubset(double from, double to, uint64_t seed) {
  Source source;
  source.set_dataset("photos");
  source.mutable_subset()->set_from(from);
  source.mutable_subset()->set_to(to);
  source.mutable_subset()->set_seed(seed);
  return source;
}

std::set<uint64_t> Members(double from, double to, uint64_t seed, uint64_t n) {
  const auto cut = SubsetCut::Create(WithSubset(from, to, seed), n);
  EXPECT_TRUE(cut.ok()) << cut.status();
  std::set<uint64_t> members;
  for (uint64_t j = 0; j < cut->size(); ++j) {
    const uint64_t index = cut->IndexOf(j);
    EXPECT_LT(index, n);
    EXPECT_EQ(cut->PlaceOf(index), j);
    EXPECT_TRUE(members.insert(index).second);
  }
  for (uint64_t i = 0; i < n; ++i) {
    EXPECT_EQ(members.count(i) == 1, cut->PlaceOf(i) < cut->size()) << i;
  }
  return members;
}

TEST(Subset, TouchingCutsAreDisjointAndComplete) {
  for (uint64_t n : {1, 2, 3, 7, 10, 100, 1001, 60000}) {
    for (double at : {0.1, 1.0 / 3, 0.5, 0.7, 0.8, 0.9999}) {
      if (SubsetBound(at, n) == 0 || SubsetBound(at, n) == n) continue;
      const std::set<uint64_t> train = Members(0, at, 1, n);
      const std::set<uint64_t> rest = Members(at, 1, 1, n);
      EXPECT_EQ(train.size() + rest.size(), n);
      std::vector<uint64_t> both;
      std::set_intersection(train.begin(), train.end(), rest.begin(),
                            rest.end(), std::back_inserter(both));
      EXPECT_TRUE(both.empty()) << n << " at " << at;
    }
  }
}

TEST(Subset, FiveFoldsCoverEverySampleOnce) {
  std::vector<uint64_t> all;
  for (int fold = 0; fold < 5; ++fold) {
    const auto members = Members(fold / 5.0, (fold + 1) / 5.0, 9, 1003);
    all.insert(all.end(), members.begin(), members.end());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), 1003u);
  for (uint64_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i);
}

TEST(Subset, BoundsRoundTheExactProduct) {
  EXPECT_EQ(SubsetBound(0, 10), 0u);
  EXPECT_EQ(SubsetBound(1, 10), 10u);
  // As a double 0.8 is a little more than 8 tenths.
  EXPECT_EQ(SubsetBound(0.8, 10), 8u);
  EXPECT_EQ(SubsetBound(0.7, 10), 7u);
  EXPECT_EQ(SubsetBound(0.5, 5), 3u);
  EXPECT_EQ(SubsetBound(1e-300, 1000), 0u);
  EXPECT_EQ(SubsetBound(5e-324, 1000), 0u);
  const uint64_t huge = uint64_t{1} << 62;
  EXPECT_EQ(SubsetBound(1, huge), huge);
  EXPECT_EQ(SubsetBound(0.5, huge), huge / 2);
  EXPECT_EQ(SubsetBound(std::nextafter(1.0, 0.0), huge),
            huge - (uint64_t{1} << 9));
}

TEST(Subset, AnotherSeedCutsElsewhere) {
  const auto a = Members(0, 0.5, 1, 10000);
  const auto b = Members(0, 0.5, 2, 10000);
  std::vector<uint64_t> both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(),
                        std::back_inserter(both));
  EXPECT_NEAR(both.size(), 2500, 6 * 25);  // hypergeometric, 6 sigma
}

TEST(Subset, RefusesBoundsThatHoldNothing) {
  for (const auto& [from, to] :
       {std::pair{0.5, 0.5}, std::pair{0.8, 0.2}, std::pair{-0.1, 0.5},
        std::pair{0.0, 1.1}, std::pair{0.0, std::nan("")}, std::pair{0.5, 0.0},
        std::pair{0.0, 0.0}}) {
    EXPECT_EQ(SubsetCut::Create(WithSubset(from, to, 1), 100).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  const auto none = SubsetCut::Create(WithSubset(0, 0.001, 1), 10);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(none.status().message().find("none of its 10 samples"),
            std::string::npos);
}

TEST(Subset, AWholeCutKeepsTheOrderOfTheDataset) {
  Source source;
  const auto whole = SubsetCut::Create(source, 5);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->IndexOf(3), 3u);
  const auto all = SubsetCut::Create(WithSubset(0, 1, 7), 5);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->IndexOf(3), 3u);
}

Source WithRuns(double from, double to, uint64_t unit) {
  Source source = WithSubset(from, to, 3);
  source.mutable_subset()->set_unit(unit);
  return source;
}

TEST(Subset, RunsStayTogetherAndTouchingCutsAreComplete) {
  for (uint64_t n : {1, 7, 64, 65, 1000, 4097}) {
    for (uint64_t unit : {2, 7, 64}) {
      std::set<uint64_t> all;
      for (const auto& [from, to] :
           {std::pair{0.0, 0.3}, std::pair{0.3, 0.8}, std::pair{0.8, 1.0}}) {
        const auto cut = SubsetCut::Create(WithRuns(from, to, unit), n);
        if (!cut.ok()) continue;  // none of few runs
        for (uint64_t j = 0; j < cut->size(); ++j) {
          const uint64_t index = cut->IndexOf(j);
          ASSERT_LT(index, n);
          ASSERT_EQ(cut->PlaceOf(index), j);
          ASSERT_TRUE(all.insert(index).second);
          // Every run but a shorter one begins at a multiple of the unit.
          if (!cut->whole()) {
            ASSERT_EQ(j % unit, index % unit);
          }
        }
        for (uint64_t i = 0; i < n; ++i) {
          ASSERT_EQ(all.count(i) == 1 && cut->PlaceOf(i) < cut->size(),
                    cut->PlaceOf(i) < cut->size());
        }
      }
      EXPECT_EQ(all.size(), n) << unit;
    }
  }
}

TEST(Subset, OfFewRunsMayHoldNone) {
  const auto none = SubsetCut::Create(WithRuns(0, 0.2, 64), 128);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(none.status().message().find("128 samples in 2 runs of 64"),
            std::string::npos);
}

void ExpectBijection(const EpochOrder& order, uint64_t n) {
  std::vector<bool> seen(n, false);
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t j = order.At(i);
    ASSERT_LT(j, n);
    ASSERT_FALSE(seen[j]);
    seen[j] = true;
  }
}

TEST(EpochOrder, GlobalVisitsAllAndChangesWithTheEpoch) {
  Shuffle shuffle;
  const EpochOrder first(shuffle, 1, 0, 1000), second(shuffle, 1, 1, 1000);
  ExpectBijection(first, 1000);
  ExpectBijection(second, 1000);
  int same = 0;
  for (uint64_t i = 0; i < 1000; ++i) same += first.At(i) == second.At(i);
  EXPECT_LT(same, 12);
}

TEST(EpochOrder, SequentialIsTheLogicalOrder) {
  Shuffle shuffle;
  shuffle.set_mode(Shuffle::SEQUENTIAL);
  const EpochOrder order(shuffle, 1, 5, 100);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(order.At(i), i);
}

TEST(EpochOrder, BlockVisitsAllAtEverySize) {
  for (uint64_t block : {1, 3, 7, 64}) {
    for (uint64_t window : {1, 2, 5}) {
      for (uint64_t n : {1, 2, 6, 7, 8, 63, 64, 65, 500, 1001}) {
        Shuffle shuffle;
        shuffle.set_mode(Shuffle::BLOCK);
        shuffle.set_block_size(block);
        shuffle.set_window_blocks(window);
        ExpectBijection(EpochOrder(shuffle, 3, 2, n), n);
      }
    }
  }
}

TEST(FastDivide, IsExact) {
  std::vector<uint64_t> divisors = {1, 2, 3, 5, 7, 10, 63, 64, 65, 1000};
  for (int bit = 10; bit <= 62; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    divisors.push_back(power - 1);
    divisors.push_back(power);
    if (bit < 62) divisors.push_back(power + 1);
  }
  for (uint64_t divisor : divisors) {
    const FastDivide divide(divisor);
    const auto expect = [&](uint64_t dividend) {
      ASSERT_EQ(divide(dividend), dividend / divisor)
          << dividend << " / " << divisor;
    };
    for (uint64_t t = 0; t < 300; ++t) {
      const uint64_t any = Mix64(t) >> (2 + t % 60);
      expect(any);
      // Around a multiple, where an error would show.
      const uint64_t multiple = any / divisor * divisor;
      expect(multiple);
      if (multiple > 0) expect(multiple - 1);
    }
    expect(FastDivide::kMaxDividend);
    expect(0);
  }
}

// The formula, written down once more without what makes it fast.
uint64_t PlainBlockOrder(uint64_t position, uint64_t block, uint64_t window,
                         uint64_t n, uint64_t seed, uint64_t epoch) {
  const uint64_t blocks = (n + block - 1) / block;
  const Permutation order(
      KeyHash(KeyDomain::kBlock).Add(seed).Add(epoch).Add(n).value(), blocks);
  // The samples in the order of the permuted blocks.
  std::vector<uint64_t> samples;
  std::vector<uint64_t> starts;  // of windows
  for (uint64_t place = 0; place < blocks; ++place) {
    if (place % window == 0) starts.push_back(samples.size());
    const uint64_t first = order.At(place) * block;
    for (uint64_t i = first; i < std::min(first + block, n); ++i) {
      samples.push_back(i);
    }
  }
  starts.push_back(n);
  uint64_t w = 0;
  while (starts[w + 1] <= position) ++w;
  const uint64_t key =
      KeyHash(KeyDomain::kWindow).Add(seed).Add(epoch).Add(n).Add(w).value();
  const Permutation inside(key, starts[w + 1] - starts[w]);
  return samples[starts[w] + inside.At(position - starts[w])];
}

TEST(EpochOrder, BlockIsItsFormula) {
  for (const auto& [block, window, n] :
       {std::tuple{64, 16, 3000}, {10, 7, 997}, {1, 300, 1000}, {7, 1, 50}}) {
    Shuffle shuffle;
    shuffle.set_mode(Shuffle::BLOCK);
    shuffle.set_block_size(block);
    shuffle.set_window_blocks(window);
    const EpochOrder order(shuffle, 9, 4, n);
    for (int p = 0; p < n; p += 1 + p % 3) {
      ASSERT_EQ(order.At(p), PlainBlockOrder(p, block, window, n, 9, 4));
    }
  }
}

// What BLOCK is for: a window of positions touches window_blocks blocks.
// BLOCK over a cut of runs reads whole blocks of the dataset.
TEST(EpochOrder, BlocksOfACutOfRunsAreBlocksOfTheDataset) {
  Shuffle shuffle;
  shuffle.set_mode(Shuffle::BLOCK);
  shuffle.set_block_size(8);
  shuffle.set_window_blocks(4);
  for (uint64_t unit : {8, 16}) {
    const auto cut = SubsetCut::Create(WithRuns(0.2, 0.9, unit), 1000);
    ASSERT_TRUE(cut.ok());
    const EpochOrder order(shuffle, 3, 2, cut->size());
    // Which of the order's blocks a block of the dataset was read in.
    std::map<uint64_t, std::set<uint64_t>> windows;
    uint64_t short_block = 0;
    for (uint64_t p = 0; p < cut->size(); ++p) {
      const uint64_t j = order.At(p);
      windows[j / 8].insert(cut->IndexOf(j) / 8);
    }
    for (const auto& [block, read] : windows) short_block += read.size() > 1;
    EXPECT_EQ(short_block, 0u);
  }
}

TEST(EpochOrder, BlockStaysWithinItsWindow) {
  Shuffle shuffle;
  shuffle.set_mode(Shuffle::BLOCK);
  shuffle.set_block_size(10);
  shuffle.set_window_blocks(4);
  const uint64_t n = 1000;  // no short block
  const EpochOrder order(shuffle, 3, 2, n);
  std::set<uint64_t> all;
  bool mixed = false;
  for (uint64_t start = 0; start < n; start += 40) {
    std::set<uint64_t> blocks;
    uint64_t last = 0;
    for (uint64_t i = start; i < start + 40; ++i) {
      const uint64_t block = order.At(i) / 10;
      mixed |= i % 10 != 0 && block != last;
      last = block;
      blocks.insert(block);
    }
    EXPECT_EQ(blocks.size(), 4u);
    all.insert(blocks.begin(), blocks.end());
  }
  EXPECT_EQ(all.size(), 100u);
  EXPECT_TRUE(mixed);
}

}  // namespace
}  // namespace millrace::plan
