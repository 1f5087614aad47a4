// The life of slots. ready_queue_test and window_test have a pool with a loader
// around it.

#include "client/prefetch/slot_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace millrace::prefetch {
namespace {

using ::testing::HasSubstr;

// Memory for at most `room` slots at a time.
class BoundedAllocator : public SlotAllocator {
 public:
  explicit BoundedAllocator(size_t room) : room_(room) {}
  ~BoundedAllocator() override { EXPECT_EQ(live_.size(), 0u); }

  uint8_t* Allocate(uint64_t bytes) override {
    if (live_.size() == room_) return nullptr;
    EXPECT_GT(bytes, 0u);
    bytes_ = bytes;
    auto* const slot = static_cast<uint8_t*>(std::malloc(bytes));
    live_.insert(slot);
    return slot;
  }

  void Free(uint8_t* data, uint64_t bytes) override {
    EXPECT_EQ(bytes, bytes_);
    EXPECT_EQ(live_.erase(data), 1u);
    std::free(data);
  }

  size_t live() const { return live_.size(); }

 private:
  const size_t room_;
  uint64_t bytes_ = 0;
  std::set<uint8_t*> live_;
};

class SlotPoolTest : public ::testing::Test {
 protected:
  uint8_t* Take() {
    const absl::StatusOr<uint8_t*> slot = pool_->Take();
    EXPECT_TRUE(slot.ok()) << slot.status();
    return slot.value_or(nullptr);
  }

  std::shared_ptr<BoundedAllocator> allocator_ =
      std::make_shared<BoundedAllocator>(3);
  std::shared_ptr<SlotPool> pool_ =
      std::make_shared<SlotPool>(allocator_, 4, 100);
};

TEST_F(SlotPoolTest, MemoryIsTakenWhenASlotIsFirstUsed) {
  EXPECT_EQ(pool_->slots(), 4u);
  EXPECT_EQ(allocator_->live(), 0u);
  uint8_t* const first = Take();
  uint8_t* const second = Take();
  EXPECT_NE(first, second);
  EXPECT_EQ(allocator_->live(), 2u);
  pool_->PutBack(first);
  pool_->PutBack(second);
  EXPECT_EQ(Take(), second) << "the slot that came back last";
  EXPECT_EQ(Take(), first);
  EXPECT_EQ(allocator_->live(), 2u);
  pool_->PutBack(first);
  pool_->PutBack(second);
}

TEST_F(SlotPoolTest, WithoutMemoryTheErrorNamesTheSlot) {
  uint8_t* const slots[] = {Take(), Take(), Take()};
  EXPECT_EQ(pool_->TryTake(), nullptr);
  const absl::Status error = pool_->Take().status();
  EXPECT_TRUE(absl::IsResourceExhausted(error)) << error;
  EXPECT_THAT(std::string(error.message()),
              HasSubstr("batch slot 4 of 4 with 100 B; use a smaller window"));
  pool_->PutBack(slots[0]);
  EXPECT_EQ(pool_->TryTake(), slots[0]);
  for (uint8_t* const slot : slots) pool_->PutBack(slot);
}

TEST_F(SlotPoolTest, ASlotIsHeldUntilTheLastCopyOfItsLeaseDies) {
  int released = 0;
  pool_->OnRelease([this, &released] {
    ++released;
    EXPECT_EQ(pool_->held(), 0u) << "counted before the call";
  });
  uint8_t* const slot = Take();
  EXPECT_EQ(pool_->held(), 0u) << "is being filled";
  std::shared_ptr<void> lease = pool_->Lease(slot);
  std::shared_ptr<void> copy = lease;
  EXPECT_EQ(lease.get(), slot);
  EXPECT_EQ(pool_->held(), 1u);
  lease.reset();
  EXPECT_EQ(pool_->held(), 1u);
  EXPECT_EQ(released, 0);
  copy.reset();
  EXPECT_EQ(pool_->held(), 0u);
  EXPECT_EQ(released, 1);
  pool_->OnRelease(nullptr);
  EXPECT_EQ(Take(), slot);
  pool_->Lease(slot).reset();
  EXPECT_EQ(released, 1);
}

TEST_F(SlotPoolTest, SharedMemoryIsReleasedBeforeItsLeaseStopsCounting) {
  auto memory = std::make_shared<int>(7);
  const std::weak_ptr<int> watched = memory;
  bool gone = false;
  pool_->OnRelease([&] { gone = watched.expired(); });
  std::shared_ptr<void> lease = pool_->LeaseShared(std::move(memory));
  EXPECT_EQ(lease.get(), watched.lock().get());
  EXPECT_EQ(pool_->held(), 1u);
  lease.reset();
  EXPECT_TRUE(gone);
  EXPECT_EQ(pool_->held(), 0u);
  EXPECT_EQ(allocator_->live(), 0u) << "no slot of the pool";
  pool_->OnRelease(nullptr);
}

TEST_F(SlotPoolTest, ALeaseOutlivesTheOwnerOfThePool) {
  std::shared_ptr<void> lease = pool_->Lease(Take());
  pool_.reset();
  EXPECT_EQ(allocator_->live(), 1u);
  lease.reset();
  EXPECT_EQ(allocator_->live(), 0u);
}

TEST_F(SlotPoolTest, TrimFreesOnlySlotsThatWereNotUsed) {
  uint8_t* const slots[] = {Take(), Take(), Take()};
  for (uint8_t* const slot : slots) pool_->PutBack(slot);
  EXPECT_FALSE(pool_->TrimOne(0)) << "not watched yet";
  pool_->BeginTrim();
  pool_->PutBack(Take());
  EXPECT_FALSE(pool_->TrimOne(3));
  EXPECT_TRUE(pool_->TrimOne(2));
  EXPECT_EQ(allocator_->live(), 2u);
  EXPECT_FALSE(pool_->TrimOne(2));
  EXPECT_TRUE(pool_->TrimOne(0));
  EXPECT_FALSE(pool_->TrimOne(0)) << "the last slot was used";
  EXPECT_EQ(allocator_->live(), 1u);
  EXPECT_EQ(Take(), slots[2]);
  pool_->PutBack(slots[2]);
}

TEST(SlotPool, ASlotOfABatchWithoutPayloadHasAnAddress) {
  const auto pool =
      std::make_shared<SlotPool>(std::make_shared<BoundedAllocator>(1), 1, 0);
  EXPECT_GT(pool->slot_bytes(), 0u);
  uint8_t* const slot = pool->TryTake();
  EXPECT_NE(slot, nullptr);
  pool->PutBack(slot);
}

}  // namespace
}  // namespace millrace::prefetch
