// What bytes of peers and files become before a person reads them.

#include "common/clean_text.h"

#include <gtest/gtest.h>

#include <string>

#include "common/utf8.h"

namespace millrace {
namespace {

constexpr size_t kPlenty = 1000;

TEST(CleanTextTest, ReadableTextStaysAsItIs) {
  for (const std::string text :
       {"", "dataset `Füße` has 3 \"rows\" \\ 4", "日本 \U0001f600 \xc2\xa0"}) {
    EXPECT_EQ(CleanText(text, kPlenty), text);
  }
}

TEST(CleanTextTest, WhatEndsALineOrMovesACursorIsEscaped) {
  EXPECT_EQ(CleanText("a\nb\r\tc\x1b[2J\x7f", kPlenty),
            "a\\nb\\r\\tc\\033[2J\\177");
  EXPECT_EQ(CleanText(std::string("a\0b", 3), kPlenty), "a\\000b");
  // The same in the second half of Latin-1: U+009B begins a sequence as well.
  EXPECT_EQ(CleanText("\xc2\x9b"
                      "2J\xc2\x85",
                      kPlenty),
            "\\302\\2332J\\302\\205");
  // U+2028 ends a line, U+202E turns what follows, U+2066 isolates.
  EXPECT_EQ(CleanText("a\xe2\x80\xa8\xe2\x80\xae\xe2\x81\xa6", kPlenty),
            "a\\342\\200\\250\\342\\200\\256\\342\\201\\246");
}

TEST(CleanTextTest, BytesThatAreNoUtf8AreEscaped) {
  EXPECT_EQ(
      CleanText("file \xff\xc3\x28 of \xc3\xa9t\xc3\xa9\xe2\x80", kPlenty),
      "file \\377\\303( of \xc3\xa9t\xc3\xa9\\342\\200");
}

TEST(CleanTextTest, LongTextIsCutBetweenCharacters) {
  for (size_t max = 20; max < 40; ++max) {
    for (const char* piece : {"x", "\xc3\xa9", "\n", "\xff", "\U0001f600"}) {
      std::string text;
      while (text.size() < 100) text += piece;
      const std::string clean = CleanText(text, max);
      EXPECT_LE(clean.size(), max);
      EXPECT_GT(clean.size(), max - 8);
      EXPECT_TRUE(IsUtf8(clean)) << clean;
      EXPECT_EQ(clean.substr(clean.size() - 10), " ... (cut)");
    }
  }
  const std::string fits(20, 'x');
  EXPECT_EQ(CleanText(fits, 20), fits);
  // Escapes count, and none is cut in two.
  EXPECT_EQ(CleanText(std::string(20, '\x01'), 20), "\\001\\001 ... (cut)");
}

TEST(CleanTextTest, CleanTextStaysClean) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  const std::string clean = CleanText(all, kPlenty);
  EXPECT_EQ(CleanText(clean, kPlenty), clean);
}

}  // namespace
}  // namespace millrace
