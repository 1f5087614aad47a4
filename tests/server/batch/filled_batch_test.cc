#include "server/batch/filled_batch.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "server/batch/payload_buffer.h"

namespace millrace::batch {
namespace {

TEST(BufferPool, GivesTheSameMemoryAgain) {
  BufferPool pool(1 << 20);
  uint64_t capacity = 0;
  uint8_t* first = pool.Take(100'000, &capacity);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  EXPECT_GE(capacity, 100'000u);
  pool.Give(first, capacity);
  EXPECT_EQ(pool.idle_bytes(), capacity);
  uint64_t again_capacity = 0;
  uint8_t* again = pool.Take(99'990, &again_capacity);
  EXPECT_EQ(again, first);
  EXPECT_EQ(again_capacity, capacity);
  EXPECT_EQ(pool.idle_bytes(), 0u);
  pool.Give(again, again_capacity);
}

TEST(BufferPool, DoesNotWasteALargeBufferOnASmallBatch) {
  BufferPool pool(1 << 20);
  uint64_t capacity = 0;
  uint8_t* large = pool.Take(100'000, &capacity);
  pool.Give(large, capacity);
  uint64_t small_capacity = 0;
  uint8_t* small = pool.Take(1000, &small_capacity);
  EXPECT_LE(small_capacity, 1024u);
  EXPECT_EQ(pool.idle_bytes(), capacity);
  pool.Give(small, small_capacity);
}

// What a batch reserves is its own bytes: a buffer that is a little longer
// would be memory that nobody counts.
TEST(BufferPool, ABufferIsNotLongerThanItsBatchHasReserved) {
  BufferPool pool(1 << 20);
  uint64_t capacity = 0;
  uint8_t* longer = pool.Take(100'000, &capacity);
  pool.Give(longer, capacity);
  uint64_t own_capacity = 0;
  uint8_t* own = pool.Take(95'000, &own_capacity);
  EXPECT_GE(own_capacity, 95'000u);
  EXPECT_LT(own_capacity, 95'000u + 64);
  EXPECT_EQ(pool.idle_bytes(), capacity);
  pool.Give(own, own_capacity);
}

TEST(BufferPool, KeepsNoMoreThanItsBound) {
  BufferPool pool(300'000);
  std::vector<std::pair<uint8_t*, uint64_t>> taken;
  for (int i = 0; i < 5; ++i) {
    uint64_t capacity = 0;
    uint8_t* data = pool.Take(100'000, &capacity);
    taken.emplace_back(data, capacity);
  }
  for (const auto& [data, capacity] : taken) {
    pool.Give(data, capacity);
    EXPECT_LE(pool.idle_bytes(), 300'000u);
  }
  EXPECT_GT(pool.idle_bytes(), 0u);
  uint64_t capacity = 0;
  uint8_t* huge = pool.Take(400'000, &capacity);
  pool.Give(huge, capacity);  // larger than all that may be idle
  EXPECT_LE(pool.idle_bytes(), 300'000u);
}

// While nobody needs that memory more is kept than the pool has for itself.
TEST(BufferPool, KeepsMoreAsLongAsTheBudgetHasRoom) {
  ByteBudget budget(1'000'000);
  BufferPool pool(100'032, &budget);
  budget.SetReclaim([&](uint64_t bytes) { pool.Reclaim(bytes); });
  ByteBudget::Reservation own;
  ASSERT_TRUE(budget.TryReserve(100'032, &own));
  std::vector<std::pair<uint8_t*, uint64_t>> taken;
  for (int i = 0; i < 6; ++i) {
    uint64_t capacity = 0;
    uint8_t* data = pool.Take(100'000, &capacity);
    taken.emplace_back(data, capacity);
  }
  for (const auto& [data, capacity] : taken) pool.Give(data, capacity);
  const uint64_t each = taken[0].second;
  EXPECT_EQ(pool.idle_bytes(), BufferPool::kMaxIdle * each);
  EXPECT_EQ(budget.used(), own.bytes());
  // Used again, it is not borrowed any more.
  uint64_t capacity = 0;
  uint8_t* again = pool.Take(100'000, &capacity);
  ByteBudget::Reservation most;
  ASSERT_TRUE(
      budget.TryReserve(budget.capacity() - own.bytes() - 2 * each, &most));
  EXPECT_EQ(pool.idle_bytes(), 3 * each);
  // Who needs the memory has it.
  ByteBudget::Reservation rest;
  ASSERT_TRUE(budget.TryReserve(2 * each, &rest));
  EXPECT_EQ(pool.idle_bytes(), each);
  pool.Give(again, capacity);
  EXPECT_EQ(pool.idle_bytes(), each);
  rest.Release();
  most.Release();
  pool.ReleaseIdle();
  EXPECT_TRUE(budget.Borrow(budget.capacity() - own.bytes()));
}

TEST(BufferPool, GivesWhatIsIdleBackToTheSystem) {
  BufferPool pool(64 << 20);
  for (const uint64_t bytes : {uint64_t{100'000}, uint64_t{5 << 20}}) {
    uint64_t capacity = 0;
    uint8_t* data = pool.Take(bytes, &capacity);
    std::memset(data, 1, bytes);
    pool.Give(data, capacity);
  }
  EXPECT_GT(pool.idle_bytes(), uint64_t{5 << 20});
  pool.ReleaseIdle();
  EXPECT_EQ(pool.idle_bytes(), 0u);
  uint64_t capacity = 0;
  uint8_t* data = pool.Take(100'000, &capacity);
  EXPECT_NE(data, nullptr);
  pool.Give(data, capacity);
}

// A large buffer that is freed is gone, whatever was allocated after it.
TEST(PayloadBuffer, ALargeOneGoesBackToTheSystem) {
  constexpr uint64_t kBytes = 8 << 20;
  uint64_t capacity = 0;
  uint8_t* data = NewPayloadBuffer(kBytes, &capacity);
  EXPECT_EQ(capacity, kBytes);
  std::memset(data, 1, kBytes);
  unsigned char in_core = 0;
  void* const page = data + kBytes / 2;
  ASSERT_EQ(mincore(page, 4096, &in_core), 0);
  FreePayloadBuffer(data, capacity);
  EXPECT_EQ(mincore(page, 4096, &in_core), -1);
  EXPECT_EQ(errno, ENOMEM);  // no mapping
}

TEST(PayloadBuffer, CapacitiesAreOfWholeUnits) {
  EXPECT_EQ(PayloadCapacity(0), 64u);
  EXPECT_EQ(PayloadCapacity(65), 128u);
  EXPECT_EQ(PayloadCapacity(kMappedPayloadBytes - 1), kMappedPayloadBytes);
  EXPECT_EQ(PayloadCapacity(kMappedPayloadBytes + 1),
            kMappedPayloadBytes + 4096);
}

TEST(BatchPayload, GivesMemoryAndBudgetBackAtTheEnd) {
  ByteBudget budget(10'000);
  auto pool = std::make_shared<BufferPool>(1 << 20);
  ByteBudget::Reservation reservation;
  ASSERT_TRUE(budget.TryReserve(5000, &reservation));
  auto payload =
      std::make_shared<BatchPayload>(4000, std::move(reservation), pool);
  EXPECT_EQ(payload->bytes(), 4000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(payload->data()) % 64, 0u);
  std::memset(payload->data(), 1, 4000);
  EXPECT_EQ(budget.used(), 5000u);
  auto slice = payload;  // as a slice on the wire refers to it
  payload.reset();
  EXPECT_EQ(budget.used(), 5000u);
  slice.reset();
  EXPECT_EQ(budget.used(), 0u);
  EXPECT_GE(pool->idle_bytes(), 4000u);
}

TEST(BatchPayload, NeedsNoPoolAndMayBeEmpty) {
  BatchPayload payload(0, ByteBudget::Reservation());
  EXPECT_NE(payload.data(), nullptr);
  EXPECT_EQ(payload.bytes(), 0u);
}

TEST(BufferPool, ServesManyThreads) {
  BufferPool pool(1 << 20);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 500; ++i) {
        uint64_t capacity = 0;
        const uint64_t bytes = 1000 + i % 3 * 5000;
        uint8_t* data = pool.Take(bytes, &capacity);
        std::memset(data, t, bytes);
        EXPECT_EQ(data[bytes - 1], t);
        pool.Give(data, capacity);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(pool.idle_bytes(), uint64_t{1} << 20);
}

}  // namespace
}  // namespace millrace::batch
