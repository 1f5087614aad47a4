#include "client/prefetch/retry_schedules.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace millrace::prefetch {
namespace {

TEST(RetrySchedulesTest, HalfOfAServersDelayIsRandom) {
  EXPECT_EQ(kServerRetry.Delay(0, 0.5), kServerRetry.first * 3 / 4);
  EXPECT_LT(kServerRetry.Delay(UINT32_MAX, 0.999), kServerRetry.max);
}

TEST(RetrySchedulesTest, QuestionsAndSharedMemoryWaitTheSameTimeAgain) {
  for (const RetrySchedule& schedule : {kQuestionRetry, kSharedMemoryRetry}) {
    EXPECT_EQ(schedule.Delay(), schedule.first);
    EXPECT_EQ(schedule.Delay(UINT32_MAX, 0.9), schedule.first);
  }
}

TEST(RetrySchedulesTest, APauseIsNeverShorterThanTheServerAskedFor) {
  EXPECT_EQ(RetryPause(absl::Seconds(4), 0), absl::Seconds(4));
  EXPECT_EQ(RetryPause(absl::Seconds(4), 0.5), absl::Milliseconds(4500));
}

}  // namespace
}  // namespace millrace::prefetch
