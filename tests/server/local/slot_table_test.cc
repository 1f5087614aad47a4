#include "server/local/slot_table.h"

#include <gtest/gtest.h>

#include <chrono>

namespace millrace::local {
namespace {

using std::chrono::seconds;

const SteadyTime kNow{seconds(1000)};

TEST(SlotTableTest, ASlotGoesRound) {
  SlotTable slots;
  const uint64_t slot = slots.Add(4096);
  EXPECT_FALSE(slots.Take(4096).has_value());  // it is being filled
  const uint64_t first = slots.Lend(slot, 1, 1, kNow);
  EXPECT_EQ(slots.lent(), 1);
  EXPECT_FALSE(slots.Take(4096).has_value());
  ASSERT_TRUE(slots.Release(slot, first, kNow).ok());
  EXPECT_EQ(slots.lent(), 0);
  EXPECT_EQ(slots.Take(4096), slot);
  EXPECT_GT(slots.Lend(slot, 1, 2, kNow), first);
}

TEST(SlotTableTest, AnAnswerToAnEarlierLendingIsRefused) {
  SlotTable slots;
  const uint64_t slot = slots.Add(4096);
  const uint64_t first = slots.Lend(slot, 1, 1, kNow);
  ASSERT_TRUE(slots.Release(slot, first, kNow).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(slots.Release(slot, first, kNow)));
  ASSERT_EQ(slots.Take(4096), slot);
  EXPECT_TRUE(absl::IsInvalidArgument(slots.Release(slot, first, kNow)));
  slots.Lend(slot, 1, 2, kNow);
  EXPECT_TRUE(absl::IsInvalidArgument(slots.Release(slot, first, kNow)));
  EXPECT_TRUE(absl::IsInvalidArgument(slots.Release(slot + 1, 1, kNow)));
  EXPECT_EQ(slots.lent(), 1);
}

TEST(SlotTableTest, OnlySlotsOfTheSameSizeAreUsedAgainTheWarmestFirst) {
  SlotTable slots;
  const uint64_t small = slots.Add(4096);
  const uint64_t large = slots.Add(8192);
  const uint64_t warm = slots.Add(8192);
  for (const uint64_t slot : {small, warm, large}) slots.Return(slot, kNow);
  EXPECT_EQ(slots.Take(8192), large);
  EXPECT_EQ(slots.Take(8192), warm);
  EXPECT_FALSE(slots.Take(8192).has_value());
}

TEST(SlotTableTest, ACallThatEndsGivesBackWhatTheClientHasNotSeen) {
  SlotTable slots;
  uint64_t numbers[4];
  uint64_t generations[4];
  for (int i = 0; i < 4; ++i) {
    numbers[i] = slots.Add(4096);
    // The last one is another call's.
    generations[i] =
        slots.Lend(numbers[i], i < 3 ? 7 : 8, i < 3 ? i + 1 : 1, kNow);
  }
  EXPECT_TRUE(slots.EndCall(7, 1, kNow));
  EXPECT_EQ(slots.lent(), 2);
  EXPECT_FALSE(slots.EndCall(7, 1, kNow));  // they are back already
  EXPECT_FALSE(slots.EndCall(9, 0, kNow));  // there never was such a call
  EXPECT_TRUE(slots.Release(numbers[0], generations[0], kNow).ok());
  EXPECT_FALSE(slots.Release(numbers[1], generations[1], kNow).ok());
  EXPECT_TRUE(slots.Release(numbers[3], generations[3], kNow).ok());
}

// Giving others back and taking them again does not make a lending younger.
TEST(SlotTableTest, TheOldestLendingIsTheOneThatIsKept) {
  SlotTable slots;
  EXPECT_FALSE(slots.oldest_lending().has_value());
  const uint64_t cycled = slots.Add(4096);
  const uint64_t kept = slots.Add(8192);
  uint64_t generation = slots.Lend(cycled, 1, 1, kNow - seconds(1));
  EXPECT_EQ(slots.oldest_lending(), kNow - seconds(1));
  const uint64_t of_kept = slots.Lend(kept, 1, 2, kNow);
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(slots.Release(cycled, generation, kNow + seconds(i)).ok());
    ASSERT_EQ(slots.Take(4096), cycled);
    generation = slots.Lend(cycled, 1, 2 + i, kNow + seconds(i));
    EXPECT_EQ(slots.oldest_lending(), kNow);
  }
  ASSERT_TRUE(slots.Release(kept, of_kept, kNow + seconds(4)).ok());
  EXPECT_EQ(slots.oldest_lending(), kNow + seconds(3));
}

TEST(SlotTableTest, NumbersAreNeverUsedAgain) {
  SlotTable slots;
  const uint64_t first = slots.Add(4096);
  slots.Return(first, kNow);
  EXPECT_EQ(slots.RemoveIdle(SteadyTime::max()), std::vector{first});
  EXPECT_EQ(slots.size(), 0);
  EXPECT_NE(slots.Add(4096), first);
}

TEST(SlotTableTest, OnlySlotsThatAreIdleForLongAreRemoved) {
  SlotTable slots;
  const uint64_t old = slots.Add(4096);
  const uint64_t fresh = slots.Add(4096);
  const uint64_t filling = slots.Add(4096);
  const uint64_t lent = slots.Add(4096);
  slots.Return(old, kNow - seconds(20));
  slots.Return(fresh, kNow);
  slots.Lend(lent, 1, 1, kNow);
  EXPECT_EQ(slots.RemoveIdle(kNow - seconds(10)), std::vector{old});
  EXPECT_EQ(slots.size(), 3);
  EXPECT_TRUE(slots.filling(filling));
  EXPECT_FALSE(slots.filling(lent));
}

}  // namespace
}  // namespace millrace::local
