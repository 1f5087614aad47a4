#include "common/picture/text_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace millrace::picture {
namespace {

using ::testing::ElementsAre;

TEST(TextLines, WidthsAreOfCharactersNotOfBytes) {
  EXPECT_DOUBLE_EQ(EstimatedTextWidth("ab", 10), 12);
  EXPECT_DOUBLE_EQ(EstimatedTextWidth("\u00e4\u6f22", 10), 12);
  EXPECT_DOUBLE_EQ(EstimatedTextWidth("", 10), 0);
  EXPECT_GE(TextLineHeight(12), 14);
}

TEST(TextLines, WordsAreWrappedWhereTheyDoNotFit) {
  // 10 characters a line.
  EXPECT_THAT(WrapText("one two three four", 60, 10, 5),
              ElementsAre("one two", "three four"));
  EXPECT_THAT(WrapText("one", 60, 10, 5), ElementsAre("one"));
  EXPECT_THAT(WrapText("", 60, 10, 5), ElementsAre(""));
}

TEST(TextLines, TheLastLineHoldsTheRest) {
  EXPECT_THAT(WrapText("one two three four five", 60, 10, 2),
              ElementsAre("one two", "three four five"));
  EXPECT_THAT(WrapText("one two", 10, 10, 1), ElementsAre("one two"));
}

TEST(TextLines, ALongWordStaysWhole) {
  EXPECT_THAT(WrapText("a " + std::string(30, 'x') + " b", 60, 10, 3),
              ElementsAre("a", std::string(30, 'x'), "b"));
}

}  // namespace
}  // namespace millrace::picture
