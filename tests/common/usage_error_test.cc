#include "common/usage_error.h"

#include <gtest/gtest.h>

#include "absl/status/statusor.h"

namespace millrace {
namespace {

TEST(UsageErrorTest, MarksErrorsAndKeepsTheRest) {
  EXPECT_TRUE(UsageError(absl::OkStatus()).ok());
  const absl::Status plain = absl::NotFoundError("no file");
  EXPECT_FALSE(IsUsageError(plain));
  const absl::Status marked = UsageError(plain);
  EXPECT_TRUE(IsUsageError(marked));
  EXPECT_EQ(marked.code(), plain.code());
  EXPECT_EQ(marked.message(), plain.message());
  EXPECT_TRUE(IsUsageError(UsageError(marked)));
}

// A signal while the configuration was read from a pipe.
TEST(UsageErrorTest, ARequestToStopIsNoMistake) {
  EXPECT_FALSE(IsUsageError(UsageError(absl::CancelledError("signal 15"))));
}

TEST(UsageErrorTest, TakesResults) {
  EXPECT_EQ(*UsageError(absl::StatusOr<int>(7)), 7);
  EXPECT_TRUE(IsUsageError(
      UsageError(absl::StatusOr<int>(absl::AbortedError("x"))).status()));
}

}  // namespace
}  // namespace millrace
