#include "client/flags/loader_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

namespace millrace::flags {
namespace {

using ::testing::HasSubstr;

class LoaderFlagsTest : public ::testing::Test {
 protected:
  // Parses and validates; the values are in loader_.
  absl::Status Parse(const std::vector<std::string>& arguments) {
    loader_ = LoaderFlags();
    program::FlagSet flags({.command = "program"});
    loader_.AddEndpoint(flags);
    loader_.AddRank(flags);
    loader_.AddWorld(flags);
    loader_.AddPrefetch(flags);
    loader_.AddInitialWindow(flags);
    loader_.AddConnection(flags);
    loader_.AddVerification(flags);
    loader_.AddHedging(flags);
    // On one line.
    help_ = absl::StrJoin(
        absl::StrSplit(flags.Help(), absl::ByAnyChar(" \n"), absl::SkipEmpty()),
        " ");
    const absl::Status parsed = flags.Parse(arguments);
    return parsed.ok() ? loader_.Validate() : parsed;
  }
  std::string Mistake(const std::string& flag,
                      const std::string& other = "--endpoint=a:1") {
    const absl::Status status = Parse({flag, other});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << flag;
    return std::string(status.message());
  }

  LoaderFlags loader_;
  std::string help_;
};

TEST_F(LoaderFlagsTest, SetTheOptions) {
  ASSERT_TRUE(
      Parse({"--endpoint=a:1,b:2", "--window=8", "--data_timeout=1m",
             "--same_host=require", "--timeout=2s", "--step_timeout=3s",
             "--noverify_payload", "--hedge_share=0.1", "--hedge_floor=0"})
          .ok());
  const LoaderOptions& options = loader_.options;
  EXPECT_EQ(options.endpoint, "a:1,b:2");
  EXPECT_EQ(options.window, 8u);
  EXPECT_EQ(options.next_timeout, absl::Minutes(1));
  EXPECT_EQ(options.same_host, SameHost::kRequire);
  EXPECT_EQ(options.open_timeout, absl::Seconds(2));
  EXPECT_EQ(options.step_timeout, absl::Seconds(3));
  EXPECT_FALSE(options.verify_payload);
  EXPECT_EQ(options.hedge_share, 0.1);
  EXPECT_EQ(options.hedge_floor, absl::ZeroDuration());
}

TEST_F(LoaderFlagsTest, HaveTheDefaultsOfTheOptionsAndShowThem) {
  ASSERT_TRUE(Parse({}).ok());
  const LoaderOptions defaults;
  EXPECT_EQ(loader_.options.open_timeout, defaults.open_timeout);
  EXPECT_EQ(loader_.options.next_timeout, defaults.next_timeout);
  EXPECT_EQ(loader_.options.step_timeout, defaults.step_timeout);
  EXPECT_EQ(loader_.options.hedge_share, defaults.hedge_share);
  EXPECT_EQ(loader_.options.hedge_floor, defaults.hedge_floor);
  EXPECT_EQ(loader_.options.same_host, defaults.same_host);
  EXPECT_EQ(loader_.options.verify_payload, defaults.verify_payload);
  for (const char* text :
       {"late; 0: no minimum (default 20ms).", "(default 5s)", "(default 15s)",
        "(default 5m)", "0: never (default 0.05)", "(default off)",
        "(default true; --noverify_payload turns it off)"}) {
    EXPECT_THAT(help_, HasSubstr(text));
  }
}

TEST_F(LoaderFlagsTest, TheWindowAdaptsOrIsANumber) {
  ASSERT_TRUE(Parse({"--window=8"}).ok());
  EXPECT_EQ(loader_.options.window, 8u);
  for (const char* flag : {"--window=auto", "--window=0"}) {
    ASSERT_TRUE(Parse({flag}).ok()) << flag;
    EXPECT_EQ(loader_.options.window, 0u) << flag;
  }
  EXPECT_THAT(help_, HasSubstr("--window=auto|N"));
  EXPECT_THAT(help_, HasSubstr("N: fixed (default auto)"));
  for (const char* word : {"many", "-4", "4294967296"}) {
    EXPECT_THAT(Mistake(absl::StrCat("--window=", word)),
                HasSubstr(absl::StrCat("flag --window=", word,
                                       ": write auto, or a number")));
  }
  for (const char* window : {"1", "65537"}) {
    EXPECT_THAT(Mistake(absl::StrCat("--window=", window)),
                HasSubstr(absl::StrCat("flag --window=", window,
                                       " is outside the limits")))
        << "what LoaderOptions::Validate() refuses is refused here";
  }
}

TEST_F(LoaderFlagsTest, TheInitialWindowIsThatOfAnAdaptiveWindow) {
  ASSERT_TRUE(Parse({"--initial_window=2"}).ok());
  EXPECT_EQ(loader_.options.initial_window, 2u);
  EXPECT_THAT(help_, HasSubstr("2 to 256 batches, at most what fits into 256 "
                               "MiB; 0: chosen by the size of the batches"));
  for (const char* window : {"1", "257"}) {
    EXPECT_THAT(Mistake(absl::StrCat("--initial_window=", window)),
                HasSubstr(absl::StrCat("flag --initial_window=", window,
                                       " is outside the limits: give 2 to "
                                       "256 batches")));
  }
  EXPECT_THAT(Mistake("--initial_window=2", "--window=8"),
              HasSubstr("flag --initial_window=2 and a fixed window of 8"));
}

TEST_F(LoaderFlagsTest, ARankIsOneOfTheWorld) {
  ASSERT_TRUE(Parse({"--rank=1", "--world=2"}).ok());
  EXPECT_EQ(loader_.options.rank, 1u);
  EXPECT_EQ(loader_.options.world_size, 2u);
  EXPECT_THAT(Mistake("--rank=2", "--world=2"),
              HasSubstr("flag --rank=2 is outside the limits: there is no rank "
                        "2 of 2, because ranks count from 0"));
  EXPECT_THAT(Mistake("--world=0"),
              HasSubstr("flag --world=0: expected a number of ranks from 1"));
  EXPECT_THAT(help_, HasSubstr("Number of ranks of the job (default 1)"));
}

TEST_F(LoaderFlagsTest, AnEndpointIsRequiredOnlyWhereAProgramNeedsOne) {
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_THAT(loader_.RequireEndpoint().message(),
              HasSubstr("flag --endpoint=HOST:PORT is missing"));
  ASSERT_TRUE(Parse({"--endpoint=a:1"}).ok());
  EXPECT_TRUE(loader_.RequireEndpoint().ok());
}

TEST_F(LoaderFlagsTest, SameHostMayStandWithoutAValue) {
  ASSERT_TRUE(Parse({"--same_host"}).ok());
  EXPECT_EQ(loader_.options.same_host, SameHost::kAuto);
  ASSERT_TRUE(Parse({"--same_host=true"}).ok());
  EXPECT_EQ(loader_.options.same_host, SameHost::kAuto);
  ASSERT_TRUE(Parse({"--nosame_host"}).ok());
  EXPECT_EQ(loader_.options.same_host, SameHost::kOff);
  EXPECT_THAT(Mistake("--same_host=maybe"),
              HasSubstr("--same_host=maybe: expected off, auto or require"));
  for (const SameHost same_host :
       {SameHost::kOff, SameHost::kAuto, SameHost::kRequire}) {
    EXPECT_EQ(SameHostOf(SameHostWord(same_host)), same_host);
  }
}

TEST_F(LoaderFlagsTest, NameMistakes) {
  EXPECT_THAT(Mistake("--timeout=0"), HasSubstr("a time above 0"));
  EXPECT_THAT(Mistake("--step_timeout=0"), HasSubstr("a time above 0"));
  EXPECT_THAT(
      Mistake("--hedge_share=1.5"),
      HasSubstr("flag --hedge_share=1.5 is outside the limits: give a share"));
  EXPECT_THAT(Mistake("--hedge_share=nan"), HasSubstr("expected a number"));
  EXPECT_THAT(Mistake("--hedge_floor=-1s"), HasSubstr("expected a time"));
  EXPECT_THAT(Mistake("--hedge_floor="), HasSubstr("expected a value"));
  // Given, if only with the value of the default: a mistake.
  EXPECT_THAT(Mistake("--hedge_share=0", "--hedge_floor=20ms"),
              HasSubstr("--hedge_floor has no effect with --hedge_share=0"));
}

}  // namespace
}  // namespace millrace::flags
