// MILLRACE_LOG_LEVEL=verbose was taken for no level, without a word.

#include "common/log_level.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/usage_error.h"

namespace millrace {
namespace {

TEST(LogLevelTest, DebugAndInfoAreLevels) {
  const auto level = [](const char* text) {
    setenv("MILLRACE_LOG_LEVEL", text, 1);
    return *LogLevelOfEnvironment();
  };
  EXPECT_EQ(level(""), LogSeverity::kINFO);
  EXPECT_EQ(level("info"), LogSeverity::kINFO);
  EXPECT_EQ(level("debug"), LogSeverity::kDEBUG);
  unsetenv("MILLRACE_LOG_LEVEL");
  EXPECT_EQ(*LogLevelOfEnvironment(), LogSeverity::kINFO);
}

TEST(LogLevelTest, AnotherLevelIsAMistake) {
  for (const char* level : {"verbose", "DEBUG", "0"}) {
    setenv("MILLRACE_LOG_LEVEL", level, 1);
    const absl::Status status = LogLevelOfEnvironment().status();
    EXPECT_TRUE(IsUsageError(status)) << status;
    EXPECT_EQ(status.message(),
              absl::StrCat("the environment variable MILLRACE_LOG_LEVEL is \"",
                           level, "\"; set it to debug or info"));
  }
}

}  // namespace
}  // namespace millrace
