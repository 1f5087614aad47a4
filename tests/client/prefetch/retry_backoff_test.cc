#include "client/prefetch/retry_backoff.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace millrace::prefetch {
namespace {

TEST(RetryBackoffTest, DoublesWithEachFailureUpToTheLimit) {
  EXPECT_EQ(RetryBackoff(0, 0), kFirstBackoff / 2);
  EXPECT_EQ(RetryBackoff(1, 0), kFirstBackoff);
  EXPECT_EQ(RetryBackoff(3, 0), kFirstBackoff * 4);
  EXPECT_EQ(RetryBackoff(10, 0), kMaxBackoff / 2);
  EXPECT_EQ(RetryBackoff(UINT32_MAX, 0), kMaxBackoff / 2);
}

TEST(RetryBackoffTest, HalfOfTheDelayIsRandom) {
  EXPECT_EQ(RetryBackoff(0, 0.5), kFirstBackoff * 3 / 4);
  EXPECT_LT(RetryBackoff(UINT32_MAX, 0.999), kMaxBackoff);
}

TEST(RetryBackoffTest, APauseIsNeverShorterThanTheServerAskedFor) {
  EXPECT_EQ(RetryPause(absl::Seconds(4), 0), absl::Seconds(4));
  EXPECT_EQ(RetryPause(absl::Seconds(4), 0.5), absl::Milliseconds(4500));
}

}  // namespace
}  // namespace millrace::prefetch
