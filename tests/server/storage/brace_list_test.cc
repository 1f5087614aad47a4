#include "server/storage/brace_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BraceListTest, NumbersKeepTheirZeros) {
  EXPECT_THAT(*ExpandBraces("t-{08..11}.tar"),
              ElementsAre("t-08.tar", "t-09.tar", "t-10.tar", "t-11.tar"));
  EXPECT_THAT(*ExpandBraces("{8..10}"), ElementsAre("8", "9", "10"));
  EXPECT_THAT(*ExpandBraces("{0..1}"), ElementsAre("0", "1"));
  EXPECT_THAT(*ExpandBraces("{9..010}"), ElementsAre("009", "010"));
  EXPECT_THAT(*ExpandBraces("a{5..5}"), ElementsAre("a5"));
}

TEST(BraceListTest, SeveralRanges) {
  EXPECT_THAT(*ExpandBraces("{0..1}/t-{07..08}"),
              ElementsAre("0/t-07", "0/t-08", "1/t-07", "1/t-08"));
}

TEST(BraceListTest, Lists) {
  EXPECT_THAT(*ExpandBraces("/d/{train,extra}-*.parquet"),
              ElementsAre("/d/train-*.parquet", "/d/extra-*.parquet"));
  EXPECT_THAT(*ExpandBraces("t{,-2}-{0..1}"),
              ElementsAre("t-0", "t-1", "t-2-0", "t-2-1"));
  EXPECT_THAT(*ExpandBraces("{1..2,3}"), ElementsAre("1..2", "3"));
  // Lists inside of each other are no list of files.
  EXPECT_THAT(*ExpandBraces("{a,{b,c}}"), ElementsAre("{a,b}", "{a,c}"));
}

TEST(BraceListTest, OtherBracesStay) {
  for (const std::string word :
       {"", "a", "{}", "{a}", "{1..}", "{..2}", "{a..b}", "{1..2", "1..2}",
        "{-1..2}", "{1...2}", "{11111111111111111111..2}"}) {
    EXPECT_FALSE(HasBraces(word)) << word;
    EXPECT_THAT(*ExpandBraces(word), ElementsAre(word));
  }
  EXPECT_TRUE(HasBraces("{a}{1..2}"));
  EXPECT_THAT(*ExpandBraces("{a}{1..2}{"), ElementsAre("{a}1{", "{a}2{"));
}

TEST(BraceListTest, RangesThatAreRefused) {
  EXPECT_THAT(std::string(ExpandBraces("{2..1}").status().message()),
              HasSubstr("the range {2..1} falls"));
  for (const std::string word :
       {"{0..1000000}", "{0..999999999999999999}", "{0..1000}{0..1000}"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ExpandBraces(word).status())) << word;
  }
}

}  // namespace
}  // namespace millrace::storage
