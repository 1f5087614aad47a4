#include "client/prefetch/slot_allocator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>

namespace millrace::prefetch {
namespace {

TEST(PlainSlotAllocatorTest, SlotsAreAlignedAndNoneIsTooLarge) {
  const std::shared_ptr<SlotAllocator> plain = NewPlainSlotAllocator();
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{100}, uint64_t{5} << 20}) {
    uint8_t* const slot = plain->Allocate(bytes);
    ASSERT_NE(slot, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(slot) % 64, 0) << bytes;
    plain->Free(slot, bytes);
  }
  // Rounded up to the alignment it would be 0.
  EXPECT_EQ(plain->Allocate(std::numeric_limits<uint64_t>::max()), nullptr);
}

}  // namespace
}  // namespace millrace::prefetch
