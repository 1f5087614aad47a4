// What one message is on standard error.

#include "common/logging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace millrace {
namespace {

// The text after the prefix, with its newline.
std::string Logged(const std::string& text) {
  ::testing::internal::CaptureStderr();
  MR_LOG(WARNING) << text;
  const std::string line = ::testing::internal::GetCapturedStderr();
  const size_t end = line.find("] ");
  EXPECT_NE(end, std::string::npos) << line;
  return line.substr(std::min(line.size(), end + 2));
}

TEST(LoggingTest, WritesTheTextAsItIs) {
  EXPECT_EQ(Logged("dataset `Füße` has 3 \"rows\" \\ 4"),
            "dataset `Füße` has 3 \"rows\" \\ 4\n");
}

// Names that peers send are logged: they must not look like lines of ours, nor
// fill the disk.
TEST(LoggingTest, AMessageIsOneLine) {
  EXPECT_EQ(Logged("no dataset `a\nI 2026 main.cc:1] stopped\r\x1b[2J`\n"),
            "no dataset `a\\nI 2026 main.cc:1] stopped\\r\\033[2J`\\n\n");
}

TEST(LoggingTest, DebugIsHiddenUntilItIsAskedFor) {
  ::testing::internal::CaptureStderr();
  MR_LOG(DEBUG) << "hidden";
  SetMinLogSeverity(LogSeverity::kDEBUG);
  MR_LOG(DEBUG) << "shown";
  SetMinLogSeverity(LogSeverity::kINFO);
  const std::string lines = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines.substr(0, 2), "D ");
  EXPECT_EQ(lines.substr(lines.size() - 6), "shown\n");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1);
}

TEST(LoggingTest, ALongMessageIsCut) {
  const std::string line = Logged(std::string(4 << 20, 'x'));
  EXPECT_LT(line.size(), 5000);
  EXPECT_EQ(line.substr(line.size() - 6), "(cut)\n");
}

}  // namespace
}  // namespace millrace
