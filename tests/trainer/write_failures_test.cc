// With --checkpoint_every=1 and a folder that was removed, the log had a line
// for every step.

#include "trainer/write_failures.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace millrace::trainer {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class WriteFailuresTest : public ::testing::Test {
 protected:
  std::string Line(const absl::Status& written) {
    return failures_.LineOf(written, now_).value_or("");
  }

  const absl::Status failed_ = absl::NotFoundError("cannot write c: gone");
  WriteFailures failures_{"c"};
  SteadyTime now_ = SteadyTime() + std::chrono::hours(1);
};

TEST_F(WriteFailuresTest, AreALineAndThenACountEveryTenSeconds) {
  EXPECT_EQ(Line(absl::OkStatus()), "");
  EXPECT_EQ(Line(failed_), "cannot write c: gone");
  for (int i = 0; i < 999; ++i) {
    now_ += milliseconds(10);
    EXPECT_EQ(Line(failed_), "") << i;
  }
  now_ += milliseconds(10);
  EXPECT_EQ(Line(failed_),
            "cannot write c: gone (999 further failed writes since the last "
            "such line)");
  EXPECT_EQ(Line(failed_), "");
  now_ += seconds(10);
  EXPECT_EQ(Line(failed_),
            "cannot write c: gone (1 further failed write since the last such "
            "line)");
}

TEST_F(WriteFailuresTest, EndWithALine) {
  EXPECT_EQ(Line(failed_), "cannot write c: gone");
  EXPECT_EQ(Line(failed_), "");
  EXPECT_EQ(Line(absl::OkStatus()),
            "c can be written again, after 2 failed writes");
  EXPECT_EQ(Line(absl::OkStatus()), "");
  // A file that works every other time does not fill the log either.
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Line(failed_), "");
    EXPECT_EQ(Line(absl::OkStatus()), "");
  }
  now_ += seconds(10);
  EXPECT_EQ(Line(failed_),
            "cannot write c: gone (101 further failed writes since the last "
            "such line)");
  EXPECT_EQ(Line(absl::OkStatus()),
            "c can be written again, after 1 failed write");
}

}  // namespace
}  // namespace millrace::trainer
