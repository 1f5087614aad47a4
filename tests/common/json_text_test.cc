#include "common/json_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace millrace {
namespace {

TEST(JsonTextTest, EscapesWhatItMust) {
  EXPECT_EQ(JsonText("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\u000a\\u0001\"");
  EXPECT_EQ(JsonText(""), "\"\"");
  EXPECT_EQ(JsonText("gr\xc3\xbc\xc3\x9f"), "\"gr\xc3\xbc\xc3\x9f\"")
      << "UTF-8";
  EXPECT_EQ(JsonText("gr\xfc\xdf"), "\"gr\\ufffd\\ufffd\"") << "Latin-1";
}

TEST(JsonTextTest, HasNullForNumbersThatJsonHasNot) {
  EXPECT_EQ(JsonNumber(0.125), "0.125");
  EXPECT_EQ(JsonNumber(-1e300), "-1e+300");
  EXPECT_EQ(JsonNumber(std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(JsonNumber(std::nan("")), "null");
}

}  // namespace
}  // namespace millrace
