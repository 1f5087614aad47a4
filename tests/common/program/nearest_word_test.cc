#include "common/program/nearest_word.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace::program {
namespace {

std::string Nearest(absl::string_view typed) {
  return std::string(NearestWord(
      typed, {"threads", "read_threads", "listen", "lr", "memory_budget"}));
}

TEST(NearestWordTest, FindsTheWordThatWasMeant) {
  EXPECT_EQ(Nearest("thread"), "threads");
  EXPECT_EQ(Nearest("treads"), "threads");
  EXPECT_EQ(Nearest("read-threads"), "read_threads");
  EXPECT_EQ(Nearest("memory_bugdet"), "memory_budget");
  EXPECT_EQ(Nearest("memory"), "memory_budget");
  EXPECT_EQ(Nearest("lrr"), "lr");
}

TEST(NearestWordTest, GivesNoneWhereNoneIsNear) {
  EXPECT_EQ(Nearest("colour"), "");
  EXPECT_EQ(Nearest("to"), "");
  EXPECT_EQ(Nearest(""), "");
  EXPECT_EQ(Nearest("me"), "");
}

TEST(NearestWordTest, AsksWhetherTheWordWasMeant) {
  EXPECT_EQ(DidYouMean("lisen", {"listen"}, "--"), "; did you mean --listen?");
  EXPECT_EQ(DidYouMean("colour", {"listen"}, "--"), "");
}

}  // namespace
}  // namespace millrace::program
