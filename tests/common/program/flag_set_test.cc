#include "common/program/flag_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/usage_error.h"

namespace millrace::program {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class FlagSetTest : public ::testing::Test {
 protected:
  absl::Status Parse(const std::vector<std::string>& arguments) {
    FlagSet flags(options_);
    flags.Group("Data");
    flags.Add("endpoint", &endpoint_, "HOST:PORT", "Where");
    flags.Add("batches", &batches_, "N", "How many");
    flags.Add("world", &world_, "N", "Ranks");
    flags.Add("offset", &offset_, "N", "From where");
    flags.Add("share", &share_, "SHARE", "How much").Needs({"json", "world"});
    flags.Add("seed", &seed_, "N", "Where it starts");
    flags.Group("Output");
    flags.Add("json", &json_, "", "As JSON");
    flags.Add("explain", &explain_, "", "With reasons");
    flags.Add("timeout", &timeout_, "TIME", "How long");
    flags.Add("grace", &grace_, "TIME", "How long at the end").MayBeZero();
    flags.Group("Data");
    flags.Add("budget", FlagSet::Bytes{&budget_}, "SIZE", "Memory");
    flags.Add("library", &libraries_, "FILE", "Libraries");
    flags.Add("rest", &rest_, "drop|pad|partial", "The rest").Choice();
    flags.Add("form", &form_, "json", "As what").Bare("text");
    flags
        .Add(
            "position",
            [this](absl::string_view value) {
              if (value != "0:1") {
                return absl::InvalidArgumentError("expected EPOCH:STEP");
              }
              position_ = std::string(value);
              return absl::OkStatus();
            },
            "EPOCH:STEP", "Which one")
        .Default("the first");
    flags.Renamed("former", "endpoint");
    absl::Status status = flags.Parse(arguments);
    EXPECT_TRUE(status.ok() || IsUsageError(status)) << status;
    help_ = flags.Help();
    help_wanted_ = flags.help_wanted();
    argument_ = flags.argument();
    json_given_ = flags.Given("json");
    form_given_ = flags.Given("form");
    return status;
  }

  std::string Mistake(const std::vector<std::string>& arguments) {
    return std::string(Parse(arguments).message());
  }

  FlagSet::Options options_ = {.command = "millrace audit",
                               .summary = "Proves that all is well.",
                               .examples = {"millrace audit --json"},
                               .notes = "Exit codes are exit codes."};
  std::string endpoint_;
  uint64_t batches_ = 200;
  uint32_t world_ = 1;
  int64_t offset_ = 0;
  double share_ = 0.05;
  std::optional<uint64_t> seed_;
  bool json_ = false;
  bool explain_ = true;
  absl::Duration timeout_ = absl::Seconds(5);
  std::optional<absl::Duration> grace_;
  uint64_t budget_ = uint64_t{2} << 30;
  std::vector<std::string> libraries_;
  std::string rest_ = "drop";
  std::string form_;
  std::string position_;
  std::string help_;
  std::string argument_;
  bool help_wanted_ = false;
  bool json_given_ = false;
  bool form_given_ = false;
};

TEST_F(FlagSetTest, TakesAllFormsAndKeepsDefaults) {
  ASSERT_TRUE(Parse({"--endpoint=a:1", "--world", "4", "--json"}).ok());
  EXPECT_EQ(endpoint_, "a:1");
  EXPECT_EQ(world_, 4);
  EXPECT_TRUE(json_);
  EXPECT_EQ(batches_, 200);
  ASSERT_TRUE(Parse({"-world=5", "-batches", "7", "--offset", "-3"}).ok());
  EXPECT_EQ(world_, 5);
  EXPECT_EQ(batches_, 7);
  EXPECT_EQ(offset_, -3);
}

// `preview --noexplain` was an unknown flag, and --explain=false no value.
TEST_F(FlagSetTest, AFlagWithABareFormIsTurnedOnAndOffAsASwitch) {
  form_ = "as before";
  for (const char* off : {"--noform", "--form=false", "-noform"}) {
    ASSERT_TRUE(Parse({off}).ok()) << off;
    EXPECT_EQ(form_, "as before") << off;
    EXPECT_FALSE(form_given_) << off;
  }
  EXPECT_THAT(Mistake({"--form", "--noform"}), HasSubstr("given twice"));
  ASSERT_TRUE(Parse({"--form=true"}).ok());
  EXPECT_EQ(form_, "text");
  EXPECT_TRUE(form_given_);
  // The last one holds, and an earlier value leaves nothing behind.
  options_.last_value_holds = true;
  form_ = "";
  ASSERT_TRUE(Parse({"--form=json", "--noform"}).ok());
  EXPECT_EQ(form_, "");
  EXPECT_FALSE(form_given_);
  ASSERT_TRUE(Parse({"--noform", "--form"}).ok());
  EXPECT_EQ(form_, "text");
  EXPECT_TRUE(form_given_);
}

TEST_F(FlagSetTest, ABoolHasANegativeForm) {
  for (const char* off : {"--json=false", "--nojson", "-nojson", "--json=0"}) {
    json_ = true;
    ASSERT_TRUE(Parse({off}).ok()) << off;
    EXPECT_FALSE(json_) << off;
    EXPECT_FALSE(json_given_) << off;
  }
  ASSERT_TRUE(Parse({"--json=true", "--noexplain"}).ok());
  EXPECT_TRUE(json_);
  EXPECT_TRUE(json_given_);
  EXPECT_FALSE(explain_);
  EXPECT_THAT(Mistake({"--nojson=1"}), HasSubstr("unknown flag --nojson"));
  EXPECT_THAT(Mistake({"--noworld"}), HasSubstr("unknown flag --noworld"));
  EXPECT_THAT(Mistake({"--json", "--nojson"}), HasSubstr("given twice"));
}

// `--seed=0` was taken for no seed, and the pipeline's own went on.
TEST_F(FlagSetTest, AnOptionalNumberTellsZeroFromNone) {
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_FALSE(seed_.has_value());
  ASSERT_TRUE(Parse({"--seed=0"}).ok());
  EXPECT_EQ(seed_, uint64_t{0});
  EXPECT_THAT(Mistake({"--seed=-1"}), HasSubstr("--seed=-1"));
  EXPECT_THAT(help_, HasSubstr("Where it starts.\n"));
}

// Each was taken without a word, and something else was done.
TEST_F(FlagSetTest, WhatWouldHaveNoEffectIsRefused) {
  EXPECT_THAT(Mistake({"--share=0.1"}),
              HasSubstr("--share has no effect without --json or --world: add "
                        "one of them, or remove --share"));
  EXPECT_FALSE(Parse({"--share=0.1", "--json=false"}).ok());
  EXPECT_TRUE(Parse({"--share=0.1", "--json"}).ok());
  EXPECT_TRUE(Parse({"--share=0.1", "--world=2"}).ok());
  EXPECT_TRUE(Parse({"--share=0.1", "--help"}).ok());
  EXPECT_EQ(Mistake({"--world=1", "--batches=2", "--world=2"}),
            "flag --world is given twice");
  EXPECT_EQ(Mistake({"--endpoint="}), "flag --endpoint=: expected a value");
  EXPECT_EQ(Mistake({"--endpoint", ""}), "flag --endpoint=: expected a value");
}

// `--json=$OUT` with OUT unset lost the summary, with exit code 0.
TEST_F(FlagSetTest, AProgramMayLetTheLastValueHoldButNoEmptyOne) {
  options_.last_value_holds = true;
  ASSERT_TRUE(Parse({"--endpoint=a", "--world=1", "--world=2"}).ok());
  EXPECT_EQ(world_, 2);
  EXPECT_EQ(endpoint_, "a");
  for (const char* flag :
       {"--endpoint=", "--seed=", "--world=", "--library="}) {
    EXPECT_EQ(Mistake({flag}),
              absl::StrCat("flag ", flag, ": expected a value"));
  }
  EXPECT_THAT(Mistake({"--world=1.5"}),
              HasSubstr("--world=1.5: expected a whole number from 0"));
  EXPECT_THAT(Mistake({"--world=99999999999999999999"}),
              HasSubstr("expected a whole number of at most 4294967295"));
}

TEST_F(FlagSetTest, AFlagMayBeGivenOncePerValue) {
  ASSERT_TRUE(Parse({"--library=a.so", "--library", "b.so"}).ok());
  EXPECT_THAT(libraries_, ElementsAre("a.so", "b.so"));
}

// `--endpoint --json` took "--json" for the endpoint.
TEST_F(FlagSetTest, AValueThatLooksLikeAFlagNeedsItsEqualsSign) {
  EXPECT_EQ(Mistake({"--endpoint", "--json"}),
            "flag --endpoint needs a value, and `--json` looks like another "
            "flag; if it is the value, write --endpoint=--json");
  EXPECT_THAT(Mistake({"-endpoint", "-json"}), HasSubstr("`-json` looks like"));
  EXPECT_EQ(endpoint_, "");
  ASSERT_TRUE(Parse({"--endpoint=--json"}).ok());
  EXPECT_EQ(endpoint_, "--json");
  ASSERT_TRUE(Parse({"--endpoint", "-"}).ok());
  EXPECT_EQ(endpoint_, "-");
}

TEST_F(FlagSetTest, TakesTimes) {
  ASSERT_TRUE(Parse({"--timeout=300ms"}).ok());
  EXPECT_EQ(timeout_, absl::Milliseconds(300));
  ASSERT_TRUE(Parse({"--timeout=2.5"}).ok());
  EXPECT_EQ(timeout_, absl::Milliseconds(2500));
  for (const char* bad : {"0", "-1s", "soon", "nan", ""}) {
    EXPECT_THAT(Mistake({std::string("--timeout=") + bad}),
                HasSubstr(std::string("--timeout=") + bad + ": expected a "))
        << bad;
  }
  for (const char* bad : {"inf", "8761h", "1e300"}) {
    EXPECT_THAT(Mistake({std::string("--timeout=") + bad}),
                HasSubstr("at most one year"))
        << bad;
  }
  ASSERT_TRUE(Parse({"--grace=0"}).ok());
  EXPECT_EQ(grace_, absl::ZeroDuration());
  EXPECT_THAT(Mistake({"--grace=-1s"}), HasSubstr("or 0"));
}

TEST_F(FlagSetTest, TakesShares) {
  ASSERT_TRUE(Parse({"--share=0.25", "--json"}).ok());
  EXPECT_EQ(share_, 0.25);
  ASSERT_TRUE(Parse({"--share", "0", "--json"}).ok());
  EXPECT_EQ(share_, 0);
  for (const char* bad : {"much", "nan", "inf", "1e999"}) {
    EXPECT_THAT(
        Mistake({std::string("--share=") + bad}),
        HasSubstr(std::string("--share=") + bad + ": expected a number"))
        << bad;
  }
}

TEST_F(FlagSetTest, TakesSizes) {
  ASSERT_TRUE(Parse({"--budget=512MiB"}).ok());
  EXPECT_EQ(budget_, uint64_t{512} << 20);
  for (const char* bad : {"lots", "0", "-1MiB"}) {
    EXPECT_THAT(Mistake({std::string("--budget=") + bad}),
                HasSubstr("expected a size above 0, for example 512MiB"))
        << bad;
  }
}

TEST_F(FlagSetTest, TakesChoicesAndValuesOfItsOwnParsers) {
  ASSERT_TRUE(Parse({"--rest=pad", "--form", "--position=0:1"}).ok());
  EXPECT_EQ(rest_, "pad");
  EXPECT_EQ(form_, "text");
  EXPECT_EQ(position_, "0:1");
  ASSERT_TRUE(Parse({"--form=json"}).ok());
  EXPECT_EQ(form_, "json");
  EXPECT_EQ(Mistake({"--rest=keep"}),
            "flag --rest=keep: expected drop, pad or partial");
  EXPECT_EQ(Mistake({"--position=1"}),
            "flag --position=1: expected EPOCH:STEP");
  EXPECT_EQ(Mistake({"--position=0:1", "--position=0:1"}),
            "flag --position is given twice");
}

TEST_F(FlagSetTest, NamesWhatIsWrong) {
  EXPECT_EQ(Mistake({"--colour=red"}),
            "unknown flag --colour; `millrace audit --help` lists the flags");
  EXPECT_EQ(Mistake({"--wrold=2"}),
            "unknown flag --wrold; did you mean --world?");
  EXPECT_EQ(Mistake({"endpoint"}),
            "unexpected argument `endpoint`; `millrace audit --help` lists the "
            "flags");
  EXPECT_THAT(Mistake({"--", "--json"}), HasSubstr("unexpected argument `--`"));
  EXPECT_EQ(Mistake({"--endpoint"}),
            "flag --endpoint needs a value: --endpoint=HOST:PORT");
  EXPECT_THAT(Mistake({"--batches=-1"}), HasSubstr("--batches=-1"));
  EXPECT_THAT(Mistake({"--world=4294967296"}), HasSubstr("--world"));
  EXPECT_THAT(Mistake({"--batches=12x"}), HasSubstr("--batches=12x"));
  EXPECT_THAT(Mistake({"--json=perhaps"}), HasSubstr("--json"));
  options_.no_argument_hint = "name it with --endpoint";
  EXPECT_THAT(Mistake({"a"}), HasSubstr("`a`; name it with --endpoint; `mill"));
}

TEST_F(FlagSetTest, AnArgumentIsTakenWhereTheCommandHasOne) {
  options_.argument = "URI";
  ASSERT_TRUE(Parse({"--json", "lmdb:/a"}).ok());
  EXPECT_EQ(argument_, "lmdb:/a");
  ASSERT_TRUE(Parse({"--", "--json"}).ok());
  EXPECT_EQ(argument_, "--json");
  EXPECT_THAT(Mistake({"--json"}), HasSubstr("URI is missing"));
  EXPECT_THAT(Mistake({"a", "b"}),
              HasSubstr("unexpected argument `b`: one URI is expected"));
  EXPECT_THAT(help_, HasSubstr("usage: millrace audit [flags] URI\n"));
}

TEST_F(FlagSetTest, ARenamedFlagGoesOnWorkingAndSaysSo) {
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(Parse({"--former=a:1"}).ok());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "millrace audit: flag --former is now called --endpoint\n");
  EXPECT_EQ(endpoint_, "a:1");
  EXPECT_THAT(help_, Not(HasSubstr("--former")));
}

TEST_F(FlagSetTest, HelpIsGivenWhereverItIsAskedFor) {
  for (const char* help : {"--help", "-help", "-h"}) {
    ASSERT_TRUE(Parse({"--json", help, "--colour"}).ok());
    EXPECT_TRUE(help_wanted_) << help;
  }
  EXPECT_THAT(Mistake({"--help=yes"}), HasSubstr("takes no value"));
  EXPECT_FALSE(help_wanted_);
}

TEST_F(FlagSetTest, HelpHasGroupsAndTheDefaultsOnce) {
  ASSERT_TRUE(Parse({"-h"}).ok());
  EXPECT_EQ(help_,
            R"(usage: millrace audit [flags]

Proves that all is well.

Examples:
  millrace audit --json

Data:
  --endpoint=HOST:PORT      Where.
  --batches=N               How many (default 200).
  --world=N                 Ranks (default 1).
  --offset=N                From where (default 0).
  --share=SHARE             How much (default 0.05).
  --seed=N                  Where it starts.
  --budget=SIZE             Memory (default: 2 GiB).
  --library=FILE            Libraries.
  --rest=drop|pad|partial   The rest (default drop).
  --form[=json]             As what.
  --position=EPOCH:STEP     Which one (default: the first).

Output:
  --json                    As JSON.
  --explain                 With reasons (default true; --noexplain turns it
                            off).
  --timeout=TIME            How long (default 5s).
  --grace=TIME              How long at the end.

Help:
  --help                    Print this text and exit; -h does the same.

TIME has a unit, such as 5s, 300ms or 2m; without one: seconds.

Exit codes are exit codes.
)");
}

}  // namespace
}  // namespace millrace::program
