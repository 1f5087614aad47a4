#include "client/prefetch/loader_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"

namespace millrace::prefetch {
namespace {

using ::testing::HasSubstr;

TEST(LoaderOptionsTest, RefusesWhatCannotBe) {
  LoaderOptions options;
  EXPECT_TRUE(absl::IsInvalidArgument(options.Validate()));  // no endpoint
  options.endpoint = "a:1";
  EXPECT_TRUE(options.Validate().ok());
  options.rank = 1;
  EXPECT_THAT(
      options.Validate().message(),
      HasSubstr("rank=1 is outside the limits: there is no rank 1 of 1"));
  options.world_size = 0;
  EXPECT_THAT(options.Validate().message(),
              HasSubstr("world_size=0 is outside the limits"));
  options.world_size = 2;
  options.window = 1;
  EXPECT_THAT(options.Validate().message(), HasSubstr("window=1 is outside"));
  options.window = 8;
  options.initial_window = 2;
  EXPECT_THAT(options.Validate().message(),
              HasSubstr("initial_window=2 and a fixed window of 8 batches "
                        "cannot be used together"));
  options.window = 0;
  EXPECT_TRUE(options.Validate().ok());
  options.next_timeout = absl::ZeroDuration();
  EXPECT_THAT(options.Validate().message(),
              HasSubstr("next_timeout=0 is outside the limits"));
}

// A value outside the limits became one within them, without a word.
TEST(LoaderOptionsTest, RefusesAnInitialWindowThatItWouldHaveToChange) {
  LoaderOptions options;
  options.endpoint = "a:1";
  for (const uint32_t window : {0, 2, 256}) {
    options.initial_window = window;
    EXPECT_TRUE(options.Validate().ok()) << window;
  }
  for (const uint32_t window : {1, 257}) {
    options.initial_window = window;
    const absl::Status status = options.Validate();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << window;
    EXPECT_THAT(status.message(),
                HasSubstr(absl::StrCat("initial_window=", window,
                                       " is outside the limits: give 2 to 256 "
                                       "batches, or 0 for")));
  }
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
