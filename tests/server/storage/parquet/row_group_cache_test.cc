#include "server/storage/parquet/row_group_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

namespace millrace {
namespace {

class Group final : public CachedRowGroup {
 public:
  Group(int id, uint64_t bytes) : id(id), bytes_(bytes) {}
  uint64_t bytes() const override { return bytes_; }
  const int id;

 private:
  const uint64_t bytes_;
};

// Counts what is loaded.
class RowGroupCacheTest : public ::testing::Test {
 protected:
  absl::StatusOr<RowGroupCache::Value> Get(RowGroupCache& cache, int id,
                                           uint64_t bytes = 10) {
    return cache.Get({0, id}, [&]() -> absl::StatusOr<RowGroupCache::Value> {
      ++loads_;
      return std::make_shared<Group>(id, bytes);
    });
  }
  std::atomic<int> loads_ = 0;
  ByteBudget budget_{100};
};

TEST_F(RowGroupCacheTest, KeepsWhatFits) {
  RowGroupCache cache(&budget_, 30);
  for (int round = 0; round < 3; ++round) {
    for (int id = 0; id < 3; ++id) {
      const auto value = Get(cache, id);
      ASSERT_TRUE(value.ok());
      EXPECT_EQ(static_cast<const Group&>(**value).id, id);
    }
  }
  EXPECT_EQ(loads_, 3);
  EXPECT_EQ(cache.charged_bytes(), 30);
  EXPECT_EQ(budget_.used(), 30);
}

TEST_F(RowGroupCacheTest, TheLeastRecentlyUsedGoesFirst) {
  RowGroupCache cache(&budget_, 30);
  for (int id : {0, 1, 2, 0, 3}) (void)Get(cache, id);
  EXPECT_EQ(loads_, 4);
  (void)Get(cache, 0);
  (void)Get(cache, 2);
  (void)Get(cache, 3);
  EXPECT_EQ(loads_, 4);
  (void)Get(cache, 1);
  EXPECT_EQ(loads_, 5);
  EXPECT_EQ(budget_.used(), 30);
}

TEST_F(RowGroupCacheTest, WithoutRoomItWorksWithoutKeeping) {
  ByteBudget::Reservation batches;
  ASSERT_TRUE(budget_.TryReserve(95, &batches));
  RowGroupCache cache(&budget_, 30);
  EXPECT_TRUE(Get(cache, 0).ok());
  EXPECT_TRUE(Get(cache, 0).ok());
  EXPECT_EQ(loads_, 2);
  EXPECT_EQ(cache.charged_bytes(), 0);
  batches.Release();
  (void)Get(cache, 0);
  (void)Get(cache, 0);
  EXPECT_EQ(loads_, 3);
}

TEST_F(RowGroupCacheTest, WhatIsLargerThanTheCacheIsNotKept) {
  RowGroupCache cache(&budget_, 30);
  (void)Get(cache, 0);
  EXPECT_TRUE(Get(cache, 1, 31).ok());
  EXPECT_EQ(cache.charged_bytes(), 10);  // and throws nothing out
}

TEST_F(RowGroupCacheTest, WithoutABudgetNothingIsKept) {
  RowGroupCache cache(nullptr, 30);
  (void)Get(cache, 0);
  (void)Get(cache, 0);
  EXPECT_EQ(loads_, 2);
}

TEST_F(RowGroupCacheTest, MemoryGoesBackWhenTheLastHolderLetsGo) {
  RowGroupCache cache(&budget_, 10);
  auto held = Get(cache, 0);
  (void)Get(cache, 1);
  EXPECT_EQ(budget_.used(), 10);  // the held one
  (void)Get(cache, 0);
  EXPECT_EQ(loads_,
            2);  // which was not thrown out: it would have freed nothing
  held = absl::UnknownError("");
  (void)Get(cache, 1);  // now takes its place
  (void)Get(cache, 1);
  EXPECT_EQ(loads_, 3);
  EXPECT_EQ(budget_.used(), 10);
  {
    RowGroupCache brief(&budget_, 10);
    held = Get(brief, 0);
    EXPECT_EQ(budget_.used(), 20);
  }
  EXPECT_EQ(budget_.used(), 20);  // longer than the cache
  held = absl::UnknownError("");
  EXPECT_EQ(budget_.used(), 10);
}

// Batches are accepted that need all of the budget but the cache's part.
TEST_F(RowGroupCacheTest, HoldersDoNotMakeTheCacheTakeMoreThanItsPart) {
  RowGroupCache cache(&budget_, 30);
  std::vector<absl::StatusOr<RowGroupCache::Value>> held;
  for (int id = 0; id < 9; ++id) {
    held.push_back(Get(cache, id));
    ASSERT_TRUE(held.back().ok());
    EXPECT_EQ(static_cast<const Group&>(**held.back()).id, id);
  }
  EXPECT_EQ(budget_.peak(), 30);
  EXPECT_EQ(cache.charged_bytes(), 30);
}

// A batch that waits for memory gets what the cache gives up.
TEST_F(RowGroupCacheTest, GivesWayToThoseWhoWait) {
  RowGroupCache cache(&budget_, 60);
  for (int id = 0; id < 6; ++id) (void)Get(cache, id);
  ByteBudget::Reservation granted;
  const auto ticket = budget_.ReserveAsync(
      50, [&](ByteBudget::Reservation r) { granted = std::move(r); });
  EXPECT_NE(ticket, 0);
  (void)Get(cache, 6);  // nothing to be had while somebody waits
  EXPECT_EQ(granted.bytes(), 50);
}

TEST_F(RowGroupCacheTest, ErrorsAreNotKept) {
  RowGroupCache cache(&budget_, 30);
  const auto failed =
      cache.Get({0, 0}, []() -> absl::StatusOr<RowGroupCache::Value> {
        return absl::DataLossError("bad");
      });
  EXPECT_TRUE(absl::IsDataLoss(failed.status()));
  EXPECT_TRUE(Get(cache, 0).ok());
}

TEST_F(RowGroupCacheTest, ConcurrentReadersLoadOnce) {
  for (ByteBudget* budget : {&budget_, static_cast<ByteBudget*>(nullptr)}) {
    loads_ = 0;
    RowGroupCache cache(budget, 30);
    // The loader lets go only when all others have been started; those that
    // come later find the value kept, or (without a budget) may load again,
    // but never at the same time.
    std::latch started(8);
    std::atomic<int> loading = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        started.count_down();
        const auto value =
            cache.Get({0, 0}, [&]() -> absl::StatusOr<RowGroupCache::Value> {
              EXPECT_EQ(++loading, 1);
              started.wait();
              ++loads_;
              --loading;
              return std::make_shared<Group>(5, 10);
            });
        ASSERT_TRUE(value.ok());
        EXPECT_EQ(static_cast<const Group&>(**value).id, 5);
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (budget != nullptr) {
      EXPECT_EQ(loads_, 1);
    }
  }
}

// Many threads over few slots: values are never lost on their way.
TEST_F(RowGroupCacheTest, ThreadsThatEvictEachOtherStillGetTheirValues) {
  RowGroupCache cache(&budget_, 20);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const int id = (i * 7 + t) % 5;
        const auto value = Get(cache, id);
        ASSERT_TRUE(value.ok());
        ASSERT_NE(*value, nullptr);
        ASSERT_EQ(static_cast<const Group&>(**value).id, id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(cache.charged_bytes(), 20);
  EXPECT_EQ(budget_.used(), cache.charged_bytes());
}

}  // namespace
}  // namespace millrace
