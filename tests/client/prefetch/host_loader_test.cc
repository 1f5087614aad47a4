#include "client/prefetch/host_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(HostLoaderOptionsTest, RefusesWhatCannotBe) {
  HostLoaderOptions options;
  EXPECT_TRUE(absl::IsInvalidArgument(options.Validate()));  // no endpoint
  options.endpoint = "a:1";
  EXPECT_TRUE(options.Validate().ok());
  options.rank = 1;
  EXPECT_THAT(options.Validate().message(), HasSubstr("rank 1"));
  options.world_size = 0;
  EXPECT_THAT(options.Validate().message(), HasSubstr("world size 0"));
  options.world_size = 2;
  options.window = 1;
  EXPECT_THAT(options.Validate().message(), HasSubstr("window of 1"));
  options.window = 8;
  options.initial_window = 2;
  EXPECT_THAT(options.Validate().message(), HasSubstr("give only one"));
  options.window = 0;
  EXPECT_TRUE(options.Validate().ok());
  options.next_timeout = absl::ZeroDuration();
  EXPECT_THAT(options.Validate().message(), HasSubstr("timeout"));
}

TEST(HostLoaderOptionsTest, RefusesAHedgeShareThatIsNone) {
  HostLoaderOptions options;
  options.endpoint = "a:1";
  for (const double share : {-0.1, 1.5, std::nan("")}) {
    options.hedge_share = share;
    EXPECT_TRUE(absl::IsInvalidArgument(options.Validate())) << share;
  }
}

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
}  // namespace millrace
