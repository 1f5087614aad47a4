// What memory a loader takes, and how many batches it is enough for.

#include "client/prefetch/offered_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace millrace::prefetch {
namespace {

using ::testing::HasSubstr;

struct alignas(64) Buffer {
  uint8_t bytes[256] = {};
};

class OfferedSlotsTest : public ::testing::Test {
 protected:
  void Start(uint32_t slots, uint32_t spares) {
    slots_.Start(128, slots, spares);
  }
  void ExpectRefused(uint8_t* data, uint64_t bytes, absl::StatusCode code,
                     const std::string& words) {
    const uint32_t count = slots_.count();
    const absl::Status status = slots_.Offer(data, bytes);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
    EXPECT_EQ(slots_.count(), count);
  }

  Buffer buffers_[8];
  OfferedSlots slots_;
};

TEST_F(OfferedSlotsTest, RefusesMemoryThatNoBatchCanLieIn) {
  ExpectRefused(buffers_[0].bytes, 256, absl::StatusCode::kFailedPrecondition,
                "before the loader was open");
  Start(4, 1);
  const auto invalid = absl::StatusCode::kInvalidArgument;
  ExpectRefused(nullptr, 256, invalid, "NULL");
  ExpectRefused(buffers_[0].bytes + 8, 248, invalid, "aligned to 8 bytes");
  ExpectRefused(buffers_[0].bytes, 127, invalid, "127 B; a batch has up");
  ExpectRefused(buffers_[0].bytes, UINT64_MAX, invalid, "the last address");
}

TEST_F(OfferedSlotsTest, RefusesMemoryThatOverlaps) {
  Start(4, 1);
  ASSERT_TRUE(slots_.Offer(buffers_[2].bytes, 256).ok());
  const auto invalid = absl::StatusCode::kInvalidArgument;
  ExpectRefused(buffers_[2].bytes, 128, invalid, "overlaps");
  ExpectRefused(buffers_[2].bytes + 64, 128, invalid, "overlaps");
  ExpectRefused(buffers_[1].bytes + 192, 128, invalid, "overlaps");
  ExpectRefused(buffers_[0].bytes, sizeof(buffers_), invalid, "overlaps");
  EXPECT_TRUE(slots_.Offer(buffers_[1].bytes, 256).ok()) << "side by side";
  EXPECT_TRUE(slots_.Offer(buffers_[3].bytes, 256).ok());
  // Delivered memory may be offered again.
  uint8_t* const slot = slots_.Allocate(128);
  EXPECT_EQ(slot, buffers_[3].bytes) << "the last that was offered";
  ExpectRefused(slot, 256, invalid, "overlaps");
  slots_.Deliver(slot);
  EXPECT_TRUE(slots_.Offer(slot, 256).ok());
}

TEST_F(OfferedSlotsTest, TakesNoMoreThanItCanUse) {
  Start(4, 1);
  EXPECT_EQ(slots_.Wanted(4), 5);
  EXPECT_EQ(slots_.Wanted(2), 3) << "a smaller window needs less";
  EXPECT_EQ(slots_.Wanted(100), 5);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(slots_.Offer(buffers_[i].bytes, 256).ok());
  }
  EXPECT_EQ(slots_.Wanted(4), 0);
  ExpectRefused(buffers_[5].bytes, 256, absl::StatusCode::kResourceExhausted,
                "maximum of 5 buffers");
  slots_.Deliver(slots_.Allocate(128));
  EXPECT_EQ(slots_.Wanted(4), 1);
  EXPECT_EQ(slots_.Wanted(2), 0);
}

TEST_F(OfferedSlotsTest, BatchesAndTheirSparesNeverNeedMoreThanThereIs) {
  Start(6, 2);
  for (uint32_t count = 0; count <= 8; ++count) {
    EXPECT_EQ(slots_.count(), count);
    EXPECT_LE(slots_.room() + slots_.spares(), count);
    EXPECT_EQ(slots_.room() > 0, count > 0) << "one is enough to go on";
    EXPECT_EQ(slots_.room(), count > 2 ? count - 2 : (count > 0 ? 1 : 0));
    if (count < 8) {
      ASSERT_TRUE(slots_.Offer(buffers_[count].bytes, 256).ok());
    }
  }
}

TEST_F(OfferedSlotsTest, AllMemoryIsTheCallersAfterStop) {
  Start(4, 1);
  ASSERT_TRUE(slots_.Offer(buffers_[0].bytes, 256).ok());
  slots_.Stop();
  EXPECT_EQ(slots_.count(), 0);
  EXPECT_EQ(slots_.room(), 0);
  ExpectRefused(buffers_[1].bytes, 256, absl::StatusCode::kCancelled, "closed");
}

}  // namespace
}  // namespace millrace::prefetch
