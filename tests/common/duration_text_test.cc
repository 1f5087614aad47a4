#include "common/duration_text.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(DurationTextTest, HasNoDigitsThatNobodyReads) {
  EXPECT_EQ(DurationText(absl::Nanoseconds(3'000'152'293)), "3s");
  EXPECT_EQ(DurationText(absl::Nanoseconds(3'012'152'293)), "3.012s");
  EXPECT_EQ(DurationText(absl::Microseconds(12'345)), "12ms");
  EXPECT_EQ(DurationText(absl::Nanoseconds(12'345)), "12us");
  EXPECT_EQ(DurationText(absl::ZeroDuration()), "0");
  EXPECT_EQ(DurationText(absl::InfiniteDuration()), "inf");
  EXPECT_EQ(DurationText(absl::Seconds(90)), "1m30s");
}

}  // namespace
}  // namespace millrace
