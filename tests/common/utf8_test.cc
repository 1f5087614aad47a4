#include "common/utf8.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(IsUtf8, TakesWhatUnicodeDefinesAndNothingElse) {
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(
      IsUtf8("gr\xC3\xB6\xC3\x9F"
             "e \xE6\xBC\xA2 \xF0\x9F\x98\x80"));
  EXPECT_TRUE(IsUtf8("\xF4\x8F\xBF\xBF"));   // the last code point
  EXPECT_FALSE(IsUtf8("\xF4\x90\x80\x80"));  // the one behind it
  EXPECT_FALSE(IsUtf8("\xED\xA0\x80"));      // a surrogate
  EXPECT_FALSE(IsUtf8("\xC0\x80"));          // a zero in two bytes
  EXPECT_FALSE(IsUtf8("\xE2\x82"));          // cut off
  EXPECT_FALSE(IsUtf8("\x80"));
  EXPECT_FALSE(IsUtf8("x\xFF"));
}

}  // namespace
}  // namespace millrace
