#include "server/storage/columns/row_group_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

namespace millrace::storage {
namespace {

using Room = RowGroupCache::Room;
using Value = RowGroupCache::Value;

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
  // Loading takes `loading` bytes, the value `bytes`.
  absl::StatusOr<Value> Get(RowGroupCache& cache, int id, uint64_t bytes = 10,
                            uint64_t loading = 10) {
    return cache.Get({0, id}, loading, [&](Room&) -> absl::StatusOr<Value> {
      ++loads_;
      return std::make_shared<Group>(id, bytes);
    });
  }
  static int IdOf(const Value& value) {
    return static_cast<const Group&>(*value).id;
  }
  std::atomic<int> loads_ = 0;
};

TEST_F(RowGroupCacheTest, KeepsWhatFits) {
  RowGroupCache cache(30, true);
  for (int round = 0; round < 3; ++round) {
    for (int id = 0; id < 3; ++id) {
      const auto value = Get(cache, id);
      ASSERT_TRUE(value.ok());
      EXPECT_EQ(IdOf(*value), id);
    }
  }
  EXPECT_EQ(loads_, 3);
  EXPECT_EQ(cache.charged_bytes(), 30);
}

TEST_F(RowGroupCacheTest, TheLeastRecentlyUsedGoesFirst) {
  RowGroupCache cache(30, true);
  for (int id : {0, 1, 2, 0, 3}) (void)Get(cache, id);
  EXPECT_EQ(loads_, 4);
  for (int id : {0, 2, 3}) (void)Get(cache, id);
  EXPECT_EQ(loads_, 4);
  (void)Get(cache, 1);
  EXPECT_EQ(loads_, 5);
  EXPECT_EQ(cache.charged_bytes(), 30);
}

TEST_F(RowGroupCacheTest, ThrowsOutNoMoreThanItNeeds) {
  RowGroupCache cache(40, true);
  for (int id : {0, 1, 2, 3}) (void)Get(cache, id);
  (void)Get(cache, 4, 10, 20);
  EXPECT_EQ(cache.charged_bytes(), 30);  // 2, 3, 4
  for (int id : {2, 3, 4}) (void)Get(cache, id);
  EXPECT_EQ(loads_, 5);
}

TEST_F(RowGroupCacheTest, WhatALoadTakesIsChargedWhileItLoads) {
  RowGroupCache cache(100, true);
  const auto value =
      cache.Get({0, 0}, 70, [&](Room& room) -> absl::StatusOr<Value> {
        EXPECT_EQ(room.bytes(), 70);
        EXPECT_EQ(cache.charged_bytes(), 70);
        EXPECT_TRUE(room.Grow(20));
        EXPECT_EQ(cache.charged_bytes(), 90);
        return std::make_shared<Group>(0, 10);
      });
  EXPECT_TRUE(value.ok());
  EXPECT_EQ(cache.charged_bytes(), 10);
  EXPECT_EQ(cache.peak_bytes(), 90);
}

// Every slice that a reader holds counts, beside a full cache too.
TEST_F(RowGroupCacheTest, WhatIsHeldIsChargedUntilItsHolderLetsGo) {
  for (const bool keep : {false, true}) {
    RowGroupCache cache(20, keep);
    auto held = Get(cache, 0);
    EXPECT_EQ(cache.charged_bytes(), 10);
    (void)Get(cache, 1);
    EXPECT_EQ(cache.charged_bytes(), keep ? 20 : 10);
    (void)Get(cache, 2);  // in the place of 1
    EXPECT_EQ(cache.peak_bytes(), 20);
    held = absl::UnknownError("");
    EXPECT_EQ(cache.charged_bytes(), keep ? 20 : 0);
  }
}

TEST_F(RowGroupCacheTest, WithoutKeepingNothingStays) {
  RowGroupCache cache(30, false);
  (void)Get(cache, 0);
  (void)Get(cache, 0);
  EXPECT_EQ(loads_, 2);
  EXPECT_EQ(cache.charged_bytes(), 0);
}

TEST_F(RowGroupCacheTest, MoreThanTheCacheHasIsRefused) {
  RowGroupCache cache(30, true);
  (void)Get(cache, 0);
  const auto refused = Get(cache, 1, 10, 31);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(loads_, 1);
  EXPECT_EQ(cache.charged_bytes(), 10);  // and throws nothing out
}

TEST_F(RowGroupCacheTest, ALoadThatWasRefusedMoreIsTriedWithAllOfTheCache) {
  RowGroupCache cache(100, true);
  auto held = Get(cache, 0, 50, 50);
  std::vector<uint64_t> rooms;
  const auto load = [&](Room& room) -> absl::StatusOr<Value> {
    rooms.push_back(room.bytes());
    if (room.bytes() < 80 && !room.Grow(80 - room.bytes())) {
      held = absl::UnknownError("");
      return absl::FailedPreconditionError("too small");
    }
    return std::make_shared<Group>(1, 80);
  };
  EXPECT_TRUE(cache.Get({0, 1}, 20, load).ok());
  EXPECT_EQ(rooms, (std::vector<uint64_t>{20, 100}));
  EXPECT_EQ(cache.charged_bytes(), 80);

  // What does not fit then is its last word.
  const auto never =
      cache.Get({0, 2}, 10, [](Room& room) -> absl::StatusOr<Value> {
        EXPECT_FALSE(room.Grow(room.max_bytes()));
        return absl::FailedPreconditionError("too small");
      });
  EXPECT_TRUE(absl::IsFailedPrecondition(never.status()));
}

// The reader of a thread that has nothing to do keeps nobody waiting.
TEST_F(RowGroupCacheTest, WhatAnIdleLeaseHoldsIsTakenBack) {
  for (const bool keep : {false, true}) {
    RowGroupCache cache(20, keep);
    RowGroupCache::Lease idle(cache), busy(cache);
    {
      const RowGroupCache::Lease::Pin pin(idle);
      idle.value = *Get(cache, 0);
    }
    const RowGroupCache::Lease::Pin pin(busy);
    busy.value = *Get(cache, 1);
    EXPECT_TRUE(Get(cache, 2).ok());
    EXPECT_EQ(cache.peak_bytes(), 20);
    const RowGroupCache::Lease::Pin look(idle);
    EXPECT_EQ(idle.value, nullptr);
    EXPECT_NE(busy.value, nullptr);
  }
}

// Else the thread that waits would never see that the room is there.
TEST_F(RowGroupCacheTest, ALeaseThatBecomesIdleWakesWhoWaits) {
  RowGroupCache cache(10, true);
  RowGroupCache::Lease lease(cache);
  std::thread waits;
  {
    const RowGroupCache::Lease::Pin pin(lease);
    lease.value = *Get(cache, 0);
    waits = std::thread([&] { EXPECT_TRUE(Get(cache, 1).ok()); });
    // With and without the other in line: either way it must come through.
    for (int i = 0; i < 100; ++i) std::this_thread::yield();
    EXPECT_EQ(loads_, 1);
  }
  waits.join();
  EXPECT_EQ(loads_, 2);
  EXPECT_EQ(cache.peak_bytes(), 10);
}

TEST_F(RowGroupCacheTest, ErrorsAreNotKept) {
  RowGroupCache cache(30, true);
  const auto failed = cache.Get({0, 0}, 10, [](Room&) -> absl::StatusOr<Value> {
    return absl::DataLossError("bad");
  });
  EXPECT_TRUE(absl::IsDataLoss(failed.status()));
  EXPECT_EQ(cache.charged_bytes(), 0);
  EXPECT_TRUE(Get(cache, 0).ok());
}

TEST_F(RowGroupCacheTest, ConcurrentReadersLoadOnce) {
  for (const bool keep : {true, false}) {
    loads_ = 0;
    RowGroupCache cache(30, keep);
    // The loader lets go only when all others have been started; those that
    // come later find the value kept, or may load again, but never at the same
    // time.
    std::latch started(8);
    std::atomic<int> loading = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&] {
        started.count_down();
        const auto value =
            cache.Get({0, 0}, 10, [&](Room&) -> absl::StatusOr<Value> {
              EXPECT_EQ(++loading, 1);
              started.wait();
              ++loads_;
              --loading;
              return std::make_shared<Group>(5, 10);
            });
        ASSERT_TRUE(value.ok());
        EXPECT_EQ(IdOf(*value), 5);
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (keep) {
      EXPECT_EQ(loads_, 1);
    }
  }
}

// Many readers, each with a lease, over room for two: none is lost, none waits
// for ever, and never is there more than the room.
TEST_F(RowGroupCacheTest, ReadersThatTakeEachOthersRoomStillGetTheirValues) {
  for (const bool keep : {true, false}) {
    RowGroupCache cache(20, keep);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        RowGroupCache::Lease lease(cache);
        for (int i = 0; i < 2000; ++i) {
          const int id = (i * 7 + t) % 5;
          const RowGroupCache::Lease::Pin pin(lease);
          if (lease.value == nullptr || IdOf(lease.value) != id) {
            lease.value = nullptr;
            auto value = Get(cache, id);
            ASSERT_TRUE(value.ok());
            lease.value = *std::move(value);
          }
          ASSERT_NE(lease.value, nullptr);
          ASSERT_EQ(IdOf(lease.value), id);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(cache.peak_bytes(), 20);
    if (!keep) {
      EXPECT_EQ(cache.charged_bytes(), 0);
    }
  }
}

}  // namespace
}  // namespace millrace::storage
