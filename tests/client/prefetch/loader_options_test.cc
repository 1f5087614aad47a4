#include "client/prefetch/loader_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace millrace::prefetch {
namespace {

using ::testing::HasSubstr;

TEST(LoaderOptionsTest, RefusesWhatCannotBe) {
  LoaderOptions options;
  EXPECT_TRUE(absl::IsInvalidArgument(options.Validate()));  // no endpoint
  options.endpoint = "a:1";
  EXPECT_TRUE(options.Validate().ok());
  options.rank = 1;
  EXPECT_THAT(options.Validate().message(), HasSubstr("rank is 1 and world_size is 1"));
  options.world_size = 0;
  EXPECT_THAT(options.Validate().message(), HasSubstr("world_size is 0"));
  options.world_size = 2;
  options.window = 1;
  EXPECT_THAT(options.Validate().message(), HasSubstr("window=1 is outside"));
  options.window = 8;
  options.initial_window = 2;
  EXPECT_THAT(options.Validate().message(), HasSubstr("give only one"));
  options.window = 0;
  EXPECT_TRUE(options.Validate().ok());
  options.next_timeout = absl::ZeroDuration();
  EXPECT_THAT(options.Validate().message(), HasSubstr("timeout"));
}

TEST(LoaderOptionsTest, RefusesAHedgeShareThatIsNone) {
  LoaderOptions options;
  options.endpoint = "a:1";
  for (const double share : {-0.1, 1.5, std::nan("")}) {
    options.hedge_share = share;
    EXPECT_TRUE(absl::IsInvalidArgument(options.Validate())) << share;
  }
}

}  // namespace
}  // namespace millrace::prefetch
