// How often one place may log, in a time that the test makes.

#include "common/line_limit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace millrace {
namespace {

using std::chrono::milliseconds;

class LineLimitTest : public ::testing::Test {
 protected:
  // Of `times` lines at once, those that were written.
  int Written(const char* file, int line, int times) {
    int written = 0;
    for (int i = 0; i < times; ++i) {
      written += limit_.Pass(file, line, now_).has_value();
    }
    return written;
  }

  LineLimit limit_{{.burst = 3, .interval = milliseconds(100)}};
  SteadyTime now_ = SteadyTime() + std::chrono::hours(1);
};

TEST_F(LineLimitTest, APlaceWritesABurstAndThenOneAnInterval) {
  EXPECT_EQ(Written("a.cc", 1, 10), 3);
  now_ += milliseconds(99);
  EXPECT_EQ(Written("a.cc", 1, 10), 0);
  now_ += milliseconds(1);
  EXPECT_EQ(Written("a.cc", 1, 10), 1);
  now_ += milliseconds(250);
  EXPECT_EQ(Written("a.cc", 1, 10), 2);
  // A silence gives the burst back, and no more.
  now_ += milliseconds(100'000);
  EXPECT_EQ(Written("a.cc", 1, 10), 3);
}

TEST_F(LineLimitTest, PlacesDoNotTakeFromEachOther) {
  EXPECT_EQ(Written("a.cc", 1, 10), 3);
  EXPECT_EQ(Written("a.cc", 2, 10), 3);
  EXPECT_EQ(Written("b.cc", 1, 10), 3);
}

TEST_F(LineLimitTest, TheNextLineSaysHowManyWereLeftOut) {
  EXPECT_EQ(limit_.Pass("a.cc", 1, now_), 0);
  Written("a.cc", 1, 10);  // 2 of them are written
  now_ += milliseconds(100);
  EXPECT_EQ(limit_.Pass("a.cc", 1, now_), 8);
  now_ += milliseconds(100);
  EXPECT_EQ(limit_.Pass("a.cc", 1, now_), 0);
}

TEST_F(LineLimitTest, ASilentPlaceIsToldOfOnce) {
  Written("a.cc", 1, 3);
  Written("b.cc", 7, 10);
  EXPECT_TRUE(limit_.TakeLeftOut(now_).empty());
  now_ += milliseconds(100);
  const auto left_out = limit_.TakeLeftOut(now_);
  ASSERT_EQ(left_out.size(), 1);
  EXPECT_EQ(left_out[0].file, "b.cc");
  EXPECT_EQ(left_out[0].line, 7);
  EXPECT_EQ(left_out[0].lines, 7);
  EXPECT_TRUE(limit_.TakeLeftOut(now_).empty());
  // It was the line of this interval.
  EXPECT_EQ(limit_.Pass("b.cc", 7, now_), std::nullopt);
}

}  // namespace
}  // namespace millrace
