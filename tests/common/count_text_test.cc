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
}

}  // namespace
}  // namespace millrace
