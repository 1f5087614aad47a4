#include "common/hex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(ParseHex, ReadsTwoDigitsAByte) {
  EXPECT_EQ(*ParseHex("00ffA5"), std::string("\0\xff\xa5", 3));
  EXPECT_EQ(*ParseHex(""), "");
}

TEST(ParseHex, RefusesWhatIsNoHexadecimal) {
  for (const std::string text : {"abc", "0g", " 00", "0x", "\xc3\xa4"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseHex(text).status())) << text;
  }
  EXPECT_FALSE(ParseHex(std::string("\0\0", 2)).ok());
  EXPECT_THAT(std::string(ParseHex("0g").status().message()),
              AllOf(HasSubstr("\"0g\""), HasSubstr("not hexadecimal")));
  EXPECT_THAT(
      std::string(ParseHex(std::string(100000, 'z')).status().message()),
      SizeIs(::testing::Lt(200)));
}

}  // namespace
}  // namespace millrace
