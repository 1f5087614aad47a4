#include "server/plan/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "server/plan/keys.h"

namespace millrace::plan {
namespace {

// Part of the content revision: another order is another revision.
TEST(Permutation, IsTheSameForEver) {
  const Permutation p(PermutationKey(1, 0, 60000), 60000);
  const std::vector<uint64_t> first = {p.At(0), p.At(1), p.At(2), p.At(59999)};
  EXPECT_EQ(first, (std::vector<uint64_t>{36988, 26550, 40856, 16068}));
}

TEST(Permutation, IsABijectionOfEverySize) {
  std::vector<uint64_t> sizes;
  for (uint64_t n = 1; n <= 300; ++n) sizes.push_back(n);
  for (uint64_t n : {511, 512, 513, 1000, 4095, 4096, 4097, 65535, 65536, 65537,
                     100003, 1 << 20}) {
    sizes.push_back(n);
  }
  for (uint64_t n : sizes) {
    const Permutation p(PermutationKey(7, n, n), n);
    std::vector<bool> seen(n, false);
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t image = p.At(i);
      ASSERT_LT(image, n);
      ASSERT_FALSE(seen[image]) << "twice in a permutation of " << n;
      seen[image] = true;
      ASSERT_EQ(p.Inverse(image), i);
    }
  }
}

TEST(Permutation, InverseHoldsForHugeDomains) {
  for (uint64_t n : {uint64_t{1'000'000'000}, (uint64_t{1} << 40) + 1,
                     Permutation::kMaxSize - 1, Permutation::kMaxSize}) {
    const Permutation p(PermutationKey(1, 2, n), n);
    for (uint64_t t = 0; t < 2000; ++t) {
      const uint64_t i = Mix64(t) % n;
      const uint64_t image = p.At(i);
      ASSERT_LT(image, n);
      ASSERT_EQ(p.Inverse(image), i);
    }
    EXPECT_EQ(p.Inverse(p.At(0)), 0u);
    EXPECT_EQ(p.Inverse(p.At(n - 1)), n - 1);
  }
}

TEST(Permutation, AskedOnceIsTheSame) {
  for (uint64_t n : {1, 200, 256, 257, 4096, 4097, 40000, 65536, 65537, 1 << 23,
                     (1 << 24) + 1}) {
    for (uint64_t key = 0; key < 20; ++key) {
      const Permutation p(Mix64(key), n);
      for (uint64_t t = 0; t < 20; ++t) {
        const uint64_t i = Mix64(t) % n;
        ASSERT_EQ(Permutation::AtOnce(Mix64(key), n, i), p.At(i)) << n;
      }
    }
  }
}

// Every tweak is a permutation of its own.
TEST(Permutation, TweakedIsABijection) {
  for (uint64_t n : {257, 513, 714, 1000, 1024, 65536}) {
    const Permutation p(PermutationKey(7, n, n), n);
    for (uint64_t tweak : {uint64_t{0}, uint64_t{1}, Mix64(5)}) {
      std::vector<bool> seen(n, false);
      for (uint64_t i = 0; i < n; ++i) {
        const uint64_t image = p.At(i, tweak);
        ASSERT_LT(image, n);
        ASSERT_FALSE(seen[image]);
        seen[image] = true;
        if (tweak == 0) {
          ASSERT_EQ(image, p.At(i));
        }
      }
    }
  }
}

// Where an index, and where two of them go, over tweaks of one key: as over
// keys.
TEST(Permutation, TweaksAreIndependent) {
  constexpr int kTweaks = 100'000, kBins = 10;
  for (uint64_t n : {300, 1000, 65536}) {
    const Permutation p(PermutationKey(3, 0, n), n);
    for (uint64_t i : {uint64_t{1}, uint64_t{16}, n / 2}) {
      std::vector<int> count(kBins * kBins, 0);
      for (int t = 0; t < kTweaks; ++t) {
        const uint64_t tweak = Mix64(t);
        ++count[p.At(0, tweak) * kBins / n * kBins +
                p.At(i, tweak) * kBins / n];
      }
      double chi2 = 0;
      for (int c : count) {
        const double expected = kTweaks / double{kBins * kBins};
        chi2 += (c - expected) * (c - expected) / expected;
      }
      const double excess = kTweaks / static_cast<double>(n * n) * kBins;
      // Bins of unequal size by one index where 10 does not divide n.
      EXPECT_LT(chi2, 99 + excess + 6 * std::sqrt(2 * 99.0)) << n << " " << i;
    }
  }
}

// Where an index goes, over keys: uniform over the domain.
TEST(Permutation, EveryIndexGoesEverywhere) {
  for (uint64_t n : {2, 3, 5, 10, 16, 17, 100}) {
    constexpr int kKeys = 20000;
    for (uint64_t i : {uint64_t{0}, n / 2, n - 1}) {
      std::vector<int> count(n, 0);
      for (int key = 0; key < kKeys; ++key) {
        ++count[Permutation(PermutationKey(key, 0, n), n).At(i)];
      }
      const double expected = static_cast<double>(kKeys) / n;
      double chi2 = 0;
      for (int c : count) chi2 += (c - expected) * (c - expected) / expected;
      // Mean n-1, variance 2(n-1): six standard deviations above and some
      // room for the skew of few degrees of freedom.
      EXPECT_LT(chi2, (n - 1) + 6 * std::sqrt(2.0 * (n - 1)) + 10)
          << "n " << n << " index " << i;
    }
  }
}

// All 24 orders of four samples come up equally often.
TEST(Permutation, SmallDomainsReachEveryOrder) {
  constexpr int kKeys = 48000;
  std::map<std::vector<uint64_t>, int> count;
  for (int key = 0; key < kKeys; ++key) {
    const Permutation p(PermutationKey(key, 1, 4), 4);
    ++count[{p.At(0), p.At(1), p.At(2), p.At(3)}];
  }
  ASSERT_EQ(count.size(), 24u);
  double chi2 = 0;
  for (const auto& [order, c] : count) {
    chi2 += (c - kKeys / 24.0) * (c - kKeys / 24.0) / (kKeys / 24.0);
  }
  EXPECT_LT(chi2, 23 + 6 * std::sqrt(46.0));
}

// Two indices at a time, over keys, just above the size of the table.
TEST(Permutation, PairsOfIndicesAreIndependent) {
  constexpr int kKeys = 100'000, kBins = 10;
  for (uint64_t n : {300, 500, 3000}) {
    for (uint64_t i : {uint64_t{1}, uint64_t{16}, n / 2}) {
      std::vector<int> count(kBins * kBins, 0);
      for (int key = 0; key < kKeys; ++key) {
        const Permutation p(PermutationKey(key, 0, n), n);
        ++count[p.At(0) * kBins / n * kBins + p.At(i) * kBins / n];
      }
      double chi2 = 0;
      for (int c : count) {
        const double expected = kKeys / double{kBins * kBins};
        chi2 += (c - expected) * (c - expected) / expected;
      }
      // Two different images avoid each other: a small, known excess.
      const double excess = kKeys / static_cast<double>(n * n) * kBins;
      EXPECT_LT(chi2, 99 + excess + 6 * std::sqrt(2 * 99.0)) << n << " " << i;
    }
  }
}

// Within one permutation: neighbours go far apart, no drift, no cycles of the
// power of two beneath.
TEST(Permutation, NeighboursAreIndependent) {
  const uint64_t n = 1'000'003;
  const Permutation p(PermutationKey(3, 1, n), n);
  constexpr int kBins = 16;
  for (uint64_t distance : {1, 2, 64, 1024, 65536}) {
    std::vector<int> count(kBins * kBins, 0);
    const uint64_t samples = 400'000;
    for (uint64_t i = 0; i < samples; ++i) {
      const uint64_t a = p.At(i) * kBins / n;
      const uint64_t b = p.At(i + distance) * kBins / n;
      ++count[a * kBins + b];
    }
    const double expected = samples / double{kBins * kBins};
    double chi2 = 0;
    for (int c : count) chi2 += (c - expected) * (c - expected) / expected;
    const double freedom = kBins * kBins - 1;
    EXPECT_LT(chi2, freedom + 6 * std::sqrt(2 * freedom)) << distance;
  }
}

// Turning one bit of the index or of the key turns half of the result's bits.
TEST(Permutation, Avalanche) {
  constexpr int kBits = 32;
  constexpr uint64_t kSize = uint64_t{1} << kBits;
  constexpr int kTrials = 2000;
  for (int bit = 0; bit < kBits; ++bit) {
    int by_index = 0, by_key = 0;
    for (int t = 0; t < kTrials; ++t) {
      const uint64_t key = Mix64(t);
      const uint64_t i = Mix64(t + kTrials) % kSize;
      const Permutation p(key, kSize);
      const Permutation q(key ^ uint64_t{1} << bit, kSize);
      by_index += __builtin_popcountll(p.At(i) ^ p.At(i ^ uint64_t{1} << bit));
      by_key += __builtin_popcountll(p.At(i) ^ q.At(i));
    }
    EXPECT_NEAR(by_index / double{kTrials}, kBits / 2, 0.5) << bit;
    EXPECT_NEAR(by_key / double{kTrials}, kBits / 2, 0.5) << bit;
  }
}

TEST(Permutation, EpochsAndSeedsGiveUnrelatedOrders) {
  const uint64_t n = 10'000;
  const Permutation a(PermutationKey(1, 0, n), n);
  for (const Permutation& b : {Permutation(PermutationKey(1, 1, n), n),
                               Permutation(PermutationKey(2, 0, n), n)}) {
    int same = 0;
    for (uint64_t i = 0; i < n; ++i) same += a.At(i) == b.At(i);
    EXPECT_LT(same, 12);  // one is expected
  }
}

}  // namespace
}  // namespace millrace::plan
