#include "common/nearest_divisors.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(NearestDivisors, AreBelowAndAbove) {
  EXPECT_EQ(NearestDivisorsText(64, 7), "4 and 8");
  EXPECT_EQ(NearestDivisorsText(7, 3), "1 and 7");
  EXPECT_EQ(NearestDivisorsText(64, 99), "64");
  EXPECT_EQ(NearestDivisorsText(1, 2), "1");
}

}  // namespace
}  // namespace millrace
