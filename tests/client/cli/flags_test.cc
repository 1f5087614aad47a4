#include "client/cli/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FlagsTest : public ::testing::Test {
 protected:
  absl::Status Parse(const std::vector<std::string>& arguments) {
    FlagSet flags("audit", "summary");
    flags.Add("endpoint", &endpoint_, "HOST:PORT", "where");
    flags.Add("batches", &batches_, "N", "how many");
    flags.Add("world", &world_, "N", "ranks");
    flags.Add("share", &share_, "SHARE", "how much");
    flags.Add("seed", &seed_, "N", "where it starts");
    flags.Add("json", &json_, "", "as JSON");
    flags.Add("timeout", &timeout_, "TIME", "how long");
    flags.Needs("share", {"json", "world"});
    absl::Status status = flags.Parse(arguments);
    help_ = flags.Help();
    help_wanted_ = flags.help_wanted();
    return status;
  }

  std::string endpoint_;
  uint64_t batches_ = 200;
  uint32_t world_ = 1;
  double share_ = 0.05;
  std::optional<uint64_t> seed_;
  bool json_ = false;
  absl::Duration timeout_ = absl::Seconds(5);
  std::string help_;
  bool help_wanted_ = false;
};

TEST_F(FlagsTest, ReadsBothFormsAndKeepsDefaults) {
  ASSERT_TRUE(Parse({"--endpoint=a:1", "--world", "4", "--json"}).ok());
  EXPECT_EQ(endpoint_, "a:1");
  EXPECT_EQ(world_, 4);
  EXPECT_TRUE(json_);
  EXPECT_EQ(batches_, 200);
  ASSERT_TRUE(Parse({"--json=false"}).ok());
  EXPECT_FALSE(json_);
}

// `--seed=0` was taken for no seed, and the pipeline's own went on.
TEST_F(FlagsTest, AnOptionalNumberTellsZeroFromNone) {
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_FALSE(seed_.has_value());
  ASSERT_TRUE(Parse({"--seed=0"}).ok());
  EXPECT_EQ(seed_, uint64_t{0});
  EXPECT_THAT(Parse({"--seed=-1"}).message(), HasSubstr("--seed=-1"));
  EXPECT_THAT(help_, Not(HasSubstr("where it starts (default")));
}

// Each was taken without a word, and something else was done.
TEST_F(FlagsTest, WhatWouldHaveNoEffectIsRefused) {
  EXPECT_THAT(Parse({"--share=0.1"}).message(),
              HasSubstr("--share has no effect without --json or --world: give "
                        "one of them, or leave --share out"));
  EXPECT_FALSE(Parse({"--share=0.1", "--json=false"}).ok());
  EXPECT_TRUE(Parse({"--share=0.1", "--json"}).ok());
  EXPECT_TRUE(Parse({"--share=0.1", "--world=2"}).ok());
  EXPECT_TRUE(Parse({"--share=0.1", "--help"}).ok());
  EXPECT_THAT(Parse({"--world=1", "--batches=2", "--world=2"}).message(),
              HasSubstr("flag --world is given twice"));
  EXPECT_THAT(Parse({"--endpoint="}).message(),
              HasSubstr("flag --endpoint=: expected a value"));
  EXPECT_THAT(Parse({"--endpoint", ""}).message(), HasSubstr("--endpoint="));
}

// `--endpoint --json` took "--json" for the endpoint.
TEST_F(FlagsTest, AValueThatLooksLikeAFlagNeedsItsEqualsSign) {
  EXPECT_THAT(
      Parse({"--endpoint", "--json"}).message(),
      HasSubstr("flag --endpoint needs a value, and `--json` looks like "
                "another flag; if it is the value, write "
                "--endpoint=--json"));
  EXPECT_EQ(endpoint_, "");
  ASSERT_TRUE(Parse({"--endpoint=--json"}).ok());
  EXPECT_EQ(endpoint_, "--json");
  ASSERT_TRUE(Parse({"--endpoint", "-"}).ok());
  EXPECT_EQ(endpoint_, "-");
}

TEST_F(FlagsTest, ReadsTimes) {
  ASSERT_TRUE(Parse({"--timeout=300ms"}).ok());
  EXPECT_EQ(timeout_, absl::Milliseconds(300));
  ASSERT_TRUE(Parse({"--timeout=2.5"}).ok());
  EXPECT_EQ(timeout_, absl::Milliseconds(2500));
  for (const char* bad : {"0", "-1s", "soon", "nan", ""}) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(Parse({std::string("--timeout=") + bad})))
        << bad;
  }
}

TEST_F(FlagsTest, ReadsShares) {
  ASSERT_TRUE(Parse({"--share=0.25", "--json"}).ok());
  EXPECT_EQ(share_, 0.25);
  EXPECT_THAT(help_, HasSubstr("how much (default 0.05)"));
  ASSERT_TRUE(Parse({"--share", "0", "--json"}).ok());
  EXPECT_EQ(share_, 0);
  for (const char* bad : {"much", "nan", "inf", "", "1e999"}) {
    EXPECT_THAT(Parse({std::string("--share=") + bad}).message(),
                HasSubstr(std::string("--share=") + bad +
                          ": expected a "
                          "number"))
        << bad;
  }
}

TEST_F(FlagsTest, NamesWhatIsWrong) {
  EXPECT_THAT(Parse({"--colour=red"}).message(),
              HasSubstr("unknown flag --colour"));
  EXPECT_THAT(Parse({"endpoint"}).message(), HasSubstr("`endpoint`"));
  EXPECT_THAT(Parse({"--endpoint"}).message(), HasSubstr("needs a value"));
  EXPECT_THAT(Parse({"--batches=-1"}).message(), HasSubstr("--batches=-1"));
  EXPECT_THAT(Parse({"--world=4294967296"}).message(), HasSubstr("--world"));
  EXPECT_THAT(Parse({"--batches=12x"}).message(), HasSubstr("--batches=12x"));
  EXPECT_THAT(Parse({"--json=perhaps"}).message(), HasSubstr("--json"));
}

TEST_F(FlagsTest, HelpListsTheFlagsWithTheirDefaults) {
  ASSERT_TRUE(Parse({"--help"}).ok());
  EXPECT_TRUE(help_wanted_);
  EXPECT_THAT(help_, HasSubstr("--batches=N"));
  EXPECT_THAT(help_, HasSubstr("how many (default 200)"));
  EXPECT_THAT(help_, HasSubstr("how long (default 5s)"));
}

}  // namespace
}  // namespace millrace
