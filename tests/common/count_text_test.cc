#include "common/count_text.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(CountTextTest, OneOfAThingHasNoPlural) {
  EXPECT_EQ(CountText(0, "sample"), "0 samples");
  EXPECT_EQ(CountText(1, "sample"), "1 sample");
  EXPECT_EQ(CountText(2, "sample"), "2 samples");
  EXPECT_EQ(CountText(1, "batch", "batches"), "1 batch");
  EXPECT_EQ(CountText(7, "batch", "batches"), "7 batches");
  EXPECT_EQ(CountText(60000, "sample"), "60,000 samples");
}

TEST(CountTextTest, RatesAreWrittenAsPeopleWriteThem) {
  EXPECT_EQ(GroupedText(999.0), "999");
  EXPECT_EQ(GroupedText(17099.6), "17,100");
  EXPECT_EQ(GroupedText(1234567.0), "1,234,567");
  EXPECT_EQ(GroupedText(uint64_t{18446744073709551615u}),
            "18,446,744,073,709,551,615");
  EXPECT_EQ(RateText(2.1e-05), "0");
  EXPECT_EQ(RateText(0.4172), "0.417");
  EXPECT_EQ(RateText(99.4), "99.4");
  EXPECT_EQ(RateText(1708.4), "1,708");
  EXPECT_EQ(RateText(17099.6), "17,100");
}

}  // namespace
}  // namespace millrace
