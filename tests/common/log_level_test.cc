// MILLRACE_LOG_LEVEL=verbose was taken for no level, without a word.

#include "common/log_level.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/usage_error.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(LogLevelTest, EachSeverityHasAWord) {
  EXPECT_EQ(*ParseLogLevel("debug"), LogSeverity::kDEBUG);
  EXPECT_EQ(*ParseLogLevel("info"), LogSeverity::kINFO);
  EXPECT_EQ(*ParseLogLevel("warning"), LogSeverity::kWARNING);
  EXPECT_EQ(*ParseLogLevel("error"), LogSeverity::kERROR);
  EXPECT_EQ(ParseLogLevel("verb\nose").status(),
            absl::InvalidArgumentError(
                "log level \"verb\\nose\": expected debug, info, warning or "
                "error"));
}

TEST(LogLevelTest, DebugAndInfoAreLevelsOfTheEnvironment) {
  for (const char* level : {"", "info", "debug"}) {
    setenv("MILLRACE_LOG_LEVEL", level, 1);
    EXPECT_TRUE(UseLogLevelOfEnvironment().ok()) << level;
  }
  unsetenv("MILLRACE_LOG_LEVEL");
  EXPECT_TRUE(UseLogLevelOfEnvironment().ok());
}

TEST(LogLevelTest, AnotherLevelIsAMistake) {
  for (const char* level : {"verbose", "DEBUG", "0", "warning", "error"}) {
    setenv("MILLRACE_LOG_LEVEL", level, 1);
    const absl::Status status = UseLogLevelOfEnvironment();
    EXPECT_TRUE(IsUsageError(status)) << status;
    EXPECT_EQ(status.message(),
              absl::StrCat("the environment variable MILLRACE_LOG_LEVEL is \"",
                           level, "\"; set it to debug or info"));
  }
}

// Each in a process of its own, where no call came before.
class LogLevelProcessTest : public ::testing::Test {
 protected:
  LogLevelProcessTest() {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
};

TEST_F(LogLevelProcessTest, TheEnvironmentSetsTheSeverity) {
  EXPECT_EXIT(
      {
        setenv("MILLRACE_LOG_LEVEL", "debug", 1);
        MR_LOG(DEBUG) << "before";
        UseLogLevelOfEnvironment().IgnoreError();
        MR_LOG(DEBUG) << "after";
        std::exit(0);
      },
      ::testing::ExitedWithCode(0),
      AllOf(HasSubstr("after"), Not(HasSubstr("before"))));
}

TEST_F(LogLevelProcessTest, ASeverityThatAProgramSetsHolds) {
  EXPECT_EXIT(
      {
        setenv("MILLRACE_LOG_LEVEL", "debug", 1);
        UseLogLevelOfEnvironment().IgnoreError();
        SetMinLogSeverity(LogSeverity::kERROR);
        UseLogLevelOfEnvironment().IgnoreError();
        MR_LOG(WARNING) << "a warning";
        MR_LOG(ERROR) << "an error";
        std::exit(0);
      },
      ::testing::ExitedWithCode(0),
      AllOf(HasSubstr("an error"), Not(HasSubstr("a warning"))));
}

}  // namespace
}  // namespace millrace
