#include "server/plan/source_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace millrace::plan {
namespace {

SourceSchedule Make(const std::vector<double>& weights, uint64_t samples) {
  auto schedule = SourceSchedule::Create(weights, samples);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *std::move(schedule);
}

std::vector<uint64_t> SlotsOf(const std::vector<double>& weights) {
  const SourceSchedule schedule = Make(weights, 1 << 20);
  std::vector<uint64_t> slots;
  for (int i = 0; i < schedule.sources(); ++i) {
    slots.push_back(schedule.slots(i));
  }
  return slots;
}

using Slots = std::vector<uint64_t>;

TEST(SourceSchedule, SharesAreWholeNumbersOfSlotsWhereTheyCanBe) {
  EXPECT_EQ(SlotsOf({1}), Slots{1024});
  EXPECT_EQ(SlotsOf({1, 1}), (Slots{512, 512}));
  EXPECT_EQ(SlotsOf({5, 5}), (Slots{512, 512}));
  EXPECT_EQ(SlotsOf({1, 1, 1}), (Slots{341, 341, 341}));
  // As doubles neither is a tenth of anything.
  EXPECT_EQ(SlotsOf({0.7, 0.3}), (Slots{714, 306}));
  EXPECT_EQ(SlotsOf({0.7, 0.2, 0.1}), (Slots{714, 204, 102}));
  EXPECT_EQ(SlotsOf({1e-300, 3e-300}), (Slots{256, 768}));
  EXPECT_EQ(SlotsOf({1e300, 3e300}), (Slots{256, 768}));
  EXPECT_EQ(SlotsOf({999, 1}), (Slots{999, 1}));
  // A block of its own, longer than the usual.
  EXPECT_EQ(SlotsOf({9999, 1}), (Slots{9999, 1}));
  EXPECT_EQ(SlotsOf({65535, 1}), (Slots{65535, 1}));
}

TEST(SourceSchedule, OtherSharesAreRoundedByLargestRemainder) {
  // 65536 * (1281167, 60000, 50000) / 1391167 = 60354.05, 2826.52, 2355.43.
  EXPECT_EQ(SlotsOf({1281167, 60000, 50000}), (Slots{60354, 2827, 2355}));
  const double pi = 3.14159265358979;
  const Slots slots = SlotsOf({pi, 1});
  EXPECT_EQ(slots[0] + slots[1], SourceSchedule::kMaxBlockSlots);
  EXPECT_NEAR(slots[0] / 65536.0, pi / (pi + 1), 1.0 / 65536);
}

TEST(SourceSchedule, RefusesWhatIsLessThanASlot) {
  for (const std::vector<double>& weights :
       {std::vector<double>{65536, 1}, {1, 1e-9}, {1, 1e-300}, {1, 0.7e-5}}) {
    const auto schedule = SourceSchedule::Create(weights, 1 << 20);
    ASSERT_EQ(schedule.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(schedule.status().message().find("sources[1]: weight"),
              std::string::npos)
        << schedule.status();
  }
  // Its slots are all in the part of the block that no epoch reaches.
  const auto few = SourceSchedule::Create({999, 1}, 100);
  ASSERT_EQ(few.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(few.status().message().find("raise epoch_samples"),
            std::string::npos);
}

// Each row of each source comes exactly once an epoch, whatever is left after
// the last whole block, in any order of asking.
TEST(SourceSchedule, EveryRowOfEverySourceComesOnce) {
  for (const std::vector<double>& weights :
       {std::vector<double>{1}, {1, 1}, {3, 2, 1}, {0.9, 0.05, 0.05}}) {
    for (uint64_t samples : {20, 300, 1023, 1024, 1025, 5000, 7168}) {
      const SourceSchedule schedule = Make(weights, samples);
      uint64_t sum = 0;
      for (int i = 0; i < schedule.sources(); ++i) {
        sum += schedule.per_epoch(i);
        const double share =
            schedule.slots(i) / static_cast<double>(schedule.block_size());
        EXPECT_NEAR(schedule.per_epoch(i), share * samples, 1);
      }
      EXPECT_EQ(sum, samples);
      for (bool shuffled : {true, false}) {
        const auto epoch = schedule.ForEpoch(5, 3, shuffled);
        std::vector<std::set<uint64_t>> rows(weights.size());
        for (uint64_t p = samples; p-- > 0;) {
          const SourceSchedule::Place place = epoch.At(p);
          ASSERT_LT(place.source, weights.size());
          ASSERT_LT(place.row, schedule.per_epoch(place.source));
          ASSERT_TRUE(rows[place.source].insert(place.row).second);
        }
      }
    }
  }
}

// A stretch of an epoch holds the shares: those of its whole blocks, and parts
// of two.
TEST(SourceSchedule, EveryBlockHoldsTheShares) {
  const SourceSchedule schedule = Make({3, 2, 1}, 100'000);
  const auto epoch = schedule.ForEpoch(5, 3, true);
  const uint64_t size = schedule.block_size();
  for (uint64_t block : {uint64_t{0}, uint64_t{7}, 100'000 / size - 1}) {
    std::map<uint32_t, uint64_t> count;
    for (uint64_t r = 0; r < size; ++r) {
      ++count[epoch.At(block * size + r).source];
    }
    for (int i = 0; i < 3; ++i) EXPECT_EQ(count[i], schedule.slots(i));
  }
}

TEST(SourceSchedule, UnshuffledBlocksTakeTheSourcesInTheirOrder) {
  const SourceSchedule schedule = Make({3, 1}, 2048);
  const auto epoch = schedule.ForEpoch(5, 3, false);
  EXPECT_EQ(epoch.At(767).source, 0u);
  EXPECT_EQ(epoch.At(767).row, 767u);
  EXPECT_EQ(epoch.At(768).source, 1u);
  EXPECT_EQ(epoch.At(768).row, 0u);
  EXPECT_EQ(epoch.At(1024).source, 0u);
  EXPECT_EQ(epoch.At(1024).row, 768u);
}

// The order within a block is another one in every block, epoch and seed, and
// as random as it should be: of a place the source over many blocks, and of two
// neighbours (which mix_up makes partners) both sources.
TEST(SourceSchedule, NeighboursAreOfIndependentSources) {
  const uint64_t blocks = 20'000;
  const SourceSchedule schedule = Make({1, 1}, blocks * 1024);
  const auto epoch = schedule.ForEpoch(1, 0, true);
  for (uint64_t r : {0, 500, 1022}) {
    int count[2][2] = {};
    for (uint64_t b = 0; b < blocks; ++b) {
      const uint32_t source = epoch.At(b * 1024 + r).source;
      ++count[source][epoch.At(b * 1024 + r + 1).source];
    }
    // 511 of the 1023 others are of the same source.
    const double same = blocks / 2.0 * 511 / 1023;
    const double other = blocks / 2.0 * 512 / 1023;
    double chi2 = 0;
    for (int a = 0; a < 2; ++a) {
      for (int b = 0; b < 2; ++b) {
        const double expected = a == b ? same : other;
        chi2 += std::pow(count[a][b] - expected, 2) / expected;
      }
    }
    EXPECT_LT(chi2, 3 + 6 * std::sqrt(6.0)) << r;
  }
  const auto next = schedule.ForEpoch(1, 1, true);
  const auto seed = schedule.ForEpoch(2, 0, true);
  int as_next = 0, as_seed = 0;
  for (uint64_t p = 0; p < 10'000; ++p) {
    const uint32_t source = epoch.At(p).source;
    as_next += source == next.At(p).source;
    as_seed += source == seed.At(p).source;
  }
  EXPECT_NEAR(as_next, 5000, 6 * 50);
  EXPECT_NEAR(as_seed, 5000, 6 * 50);
}

}  // namespace
}  // namespace millrace::plan
