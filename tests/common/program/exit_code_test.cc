#include "common/program/exit_code.h"

#include <gtest/gtest.h>

namespace millrace::program {
namespace {

TEST(ExitCodeTest, TellsMistakesOfUseFromOtherErrors) {
  EXPECT_EQ(ExitCode(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCode(absl::InvalidArgumentError("x")), 1);
  EXPECT_EQ(ExitCode(UsageError(absl::NotFoundError("x"))), 2);
}

}  // namespace
}  // namespace millrace::program
