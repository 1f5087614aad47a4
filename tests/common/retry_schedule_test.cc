#include "common/retry_schedule.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace millrace {
namespace {

constexpr RetrySchedule kRetry = {.first = absl::Milliseconds(50),
                                  .max = absl::Seconds(2),
                                  .random_share = 0.5};

TEST(RetryScheduleTest, DoublesWithEachFailureUpToTheMax) {
  EXPECT_EQ(kRetry.Delay(0, 0), kRetry.first / 2);
  EXPECT_EQ(kRetry.Delay(1, 0), kRetry.first);
  EXPECT_EQ(kRetry.Delay(3, 0), kRetry.first * 4);
  EXPECT_EQ(kRetry.Delay(10, 0), kRetry.max / 2);
  EXPECT_EQ(kRetry.Delay(UINT32_MAX, 0), kRetry.max / 2);
}

TEST(RetryScheduleTest, RandomSpreadsItsShareOfADelay) {
  EXPECT_EQ(kRetry.Delay(0, 0.5), kRetry.first * 3 / 4);
  EXPECT_LT(kRetry.Delay(UINT32_MAX, 0.999), kRetry.max);
}

TEST(RetryScheduleTest, AScheduleWhoseMaxIsItsFirstDelayIsConstant) {
  constexpr RetrySchedule kSame = {.first = absl::Seconds(1),
                                   .max = absl::Seconds(1)};
  EXPECT_EQ(kSame.Delay(), kSame.first);
  EXPECT_EQ(kSame.Delay(UINT32_MAX, 0.9), kSame.first);
}

}  // namespace
}  // namespace millrace
