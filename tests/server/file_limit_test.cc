// The limit of open files.

#include "server/file_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace millrace::server {
namespace {

uint64_t Limit() {
  rlimit limit = {};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  return limit.rlim_cur;
}

TEST(FileLimitTest, IsRaisedAsFarAsAllowedAndNeverLowered) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = 100;
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, 200);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(RaiseFileLimit(150), 150);
  EXPECT_EQ(Limit(), 150);
  EXPECT_EQ(RaiseFileLimit(120), 150);
  EXPECT_EQ(Limit(), 150);
  EXPECT_EQ(RaiseFileLimit(), 200);
  EXPECT_EQ(Limit(), 200);
}

TEST(FileLimitTest, KnowsTheLimitAndTheOpenFiles) {
  EXPECT_EQ(FileLimit(), Limit());
  const uint64_t before = OpenFiles();
  EXPECT_GE(before, 3);
  const int fd = dup(0);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(OpenFiles(), before + 1);
  close(fd);
}

// gRPC aborted the process.
TEST(FileLimitTest, RefusesALimitThatIsTooLowForAServer) {
  const absl::Status refused = CheckFileLimit(12, 3);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()),
              ::testing::HasSubstr(
                  "the limit of open files is 12 (ulimit -n), too low for the "
                  "server, which needs 20"));
  EXPECT_FALSE(CheckFileLimit(20, 10).ok());
  EXPECT_FALSE(CheckFileLimit(4, 0).ok());
  EXPECT_TRUE(CheckFileLimit(20, 3).ok());
  EXPECT_TRUE(CheckFileLimit(0, 3).ok()) << "the limit is unknown";
}

}  // namespace
}  // namespace millrace::server
