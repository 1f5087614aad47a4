// MILLRACE_LOG_LEVEL=verbose was taken for no level, without a word.

#include "common/log_level.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/usage_error.h"

namespace millrace {
namespace {

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
    EXPECT_TRUE(CheckLogLevel().ok()) << level;
  }
  unsetenv("MILLRACE_LOG_LEVEL");
  EXPECT_TRUE(CheckLogLevel().ok());
}

TEST(LogLevelTest, AnotherLevelIsAMistake) {
  for (const char* level : {"verbose", "DEBUG", "0", "warning", "error"}) {
    setenv("MILLRACE_LOG_LEVEL", level, 1);
    const absl::Status status = CheckLogLevel();
    EXPECT_TRUE(IsUsageError(status)) << status;
    EXPECT_EQ(status.message(),
              absl::StrCat("the environment variable MILLRACE_LOG_LEVEL is \"",
                           level, "\"; set it to debug or info"));
  }
}

}  // namespace
}  // namespace millrace
