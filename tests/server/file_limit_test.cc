// The limit of open files.

#include "server/file_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

namespace millrace {
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

}  // namespace
}  // namespace millrace
