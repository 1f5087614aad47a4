#include "client/prefetch/retry_schedule.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace millrace::prefetch {
namespace {

TEST(RetryScheduleTest, DoublesWithEachFailureUpToTheMax) {
  const absl::Duration first = kServerRetry.first;
  EXPECT_EQ(kServerRetry.Delay(0, 0), first / 2);
  EXPECT_EQ(kServerRetry.Delay(1, 0), first);
  EXPECT_EQ(kServerRetry.Delay(3, 0), first * 4);
  EXPECT_EQ(kServerRetry.Delay(10, 0), kServerRetry.max / 2);
  EXPECT_EQ(kServerRetry.Delay(UINT32_MAX, 0), kServerRetry.max / 2);
}

TEST(RetryScheduleTest, HalfOfAServersDelayIsRandom) {
  EXPECT_EQ(kServerRetry.Delay(0, 0.5), kServerRetry.first * 3 / 4);
  EXPECT_LT(kServerRetry.Delay(UINT32_MAX, 0.999), kServerRetry.max);
}

TEST(RetryScheduleTest, AScheduleWhoseMaxIsItsFirstDelayIsConstant) {
  for (const RetrySchedule& schedule : {kQuestionRetry, kSharedMemoryRetry}) {
    EXPECT_EQ(schedule.Delay(), schedule.first);
    EXPECT_EQ(schedule.Delay(UINT32_MAX, 0.9), schedule.first);
  }
}

TEST(RetryScheduleTest, APauseIsNeverShorterThanTheServerAskedFor) {
  EXPECT_EQ(RetryPause(absl::Seconds(4), 0), absl::Seconds(4));
  EXPECT_EQ(RetryPause(absl::Seconds(4), 0.5), absl::Milliseconds(4500));
}

}  // namespace
}  // namespace millrace::prefetch
