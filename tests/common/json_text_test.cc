#include "common/json_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

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

TEST(JsonTextTest, WritesObjectsAndLists) {
  JsonObject object;
  EXPECT_EQ(object.Json(), "{}");
  object.Add("text", "a \"word\"").Add("yes", true);
  object.Add("large", std::numeric_limits<uint64_t>::max());
  object.Add("share", 1.0 / 3).Add("row", int64_t{-1});
  object.Add("list", std::vector<double>{0.5, std::nan("")});
  object.Add("none", std::optional<double>());
  object.AddJson(
      "inner",
      JsonObject().Add("words", std::vector<std::string>{"a", "b"}).Json());
  EXPECT_EQ(object.Json(),
            "{\"text\": \"a \\\"word\\\"\", \"yes\": true, "
            "\"large\": 18446744073709551615, \"share\": 0.333333, "
            "\"row\": -1, \"list\": [0.5, null], \"none\": null, "
            "\"inner\": {\"words\": [\"a\", \"b\"]}}");
  EXPECT_EQ(JsonOf(1.0 / 3, 9), "0.333333333");
}

}  // namespace
}  // namespace millrace
