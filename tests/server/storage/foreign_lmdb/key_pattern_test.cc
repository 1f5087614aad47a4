#include "server/storage/foreign_lmdb/key_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/string_view.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

std::string ClassOf(absl::string_view pattern, absl::string_view key) {
  const auto parsed = KeyPattern::Parse(pattern);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? std::string(parsed->ClassOf(key)) : "";
}

TEST(KeyPatternTest, TheClassStandsInItsPlace) {
  EXPECT_EQ(ClassOf("{class}", "cat"), "cat");
  EXPECT_EQ(ClassOf("train/{class}/*", "train/cat/0001.jpg"), "cat");
  EXPECT_EQ(ClassOf("train/{class}/*", "train/cat/deep/1.jpg"), "cat");
  EXPECT_EQ(ClassOf("{class}_*", "n01440764_18"), "n01440764");
  EXPECT_EQ(ClassOf("*/{class}.jpg", "2024/07/dog.jpg"), "dog");
  EXPECT_EQ(ClassOf("*_{class}_*", "a_b_c_d"), "b");
  EXPECT_EQ(ClassOf("*-{class}", "a-b-c"), "b-c");
  EXPECT_EQ(ClassOf("{class}*", "cat"), "c");
  EXPECT_EQ(ClassOf("{key}{class}", "{key}x"), "x");
  EXPECT_EQ(ClassOf("{class}/*", "b\xC3\xA4r/1"), "b\xC3\xA4r");
}

TEST(KeyPatternTest, KeysThatDoNotMatchHaveNoClass) {
  EXPECT_EQ(ClassOf("train/{class}/*", "val/cat/1.jpg"), "");
  EXPECT_EQ(ClassOf("train/{class}/*", "train/cat"), "");
  // A class has a letter, and no '/'.
  EXPECT_EQ(ClassOf("train/{class}/*", "train//1.jpg"), "");
  EXPECT_EQ(ClassOf("{class}", "a/b"), "");
  EXPECT_EQ(ClassOf("{class}", ""), "");
  EXPECT_EQ(ClassOf("{class}.jpg", "cat.jpg.png"), "");
}

TEST(KeyPatternTest, TimeDoesNotExplode) {
  std::string pattern = "{class}";
  for (int i = 0; i < 200; ++i) pattern += "*a";
  pattern += "b";
  EXPECT_EQ(ClassOf(pattern, std::string(511, 'a')), "");
}

TEST(KeyPatternTest, PatternsThatAreRefused) {
  for (const std::string& pattern :
       {std::string(), std::string("train/*"), std::string("{class}{class}"),
        std::string("{Class}")}) {
    EXPECT_THAT(std::string(KeyPattern::Parse(pattern).status().message()),
                HasSubstr("a pattern with {class} once"))
        << pattern;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(
      KeyPattern::Parse("{class}" + std::string(511, 'x')).status()));
}

}  // namespace
}  // namespace millrace::storage
