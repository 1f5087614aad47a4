// The promise of ServiceTest that no other test shows while all goes well: what
// cannot be set up ends the test with the reason.

#include "tests/testing/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/statusor.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class ServiceFixtureTest : public ServiceTest {};

TEST_F(ServiceFixtureTest, AServerThatDoesNotStartEndsTheTestWithItsMessage) {
  EXPECT_THAT([] { Serve({"--colour=red"}); },
              ThrowsMessage<absl::BadStatusOrAccess>(
                  HasSubstr("unknown flag --colour")));
}

TEST_F(ServiceFixtureTest, ALoaderThatDoesNotOpenEndsTheTestWithItsStatus) {
  const auto server = Serve({"--synthetic_only"});
  EXPECT_THAT([&] { Open(Options(server->address(), 20)); },
              ThrowsMessage<absl::BadStatusOrAccess>(HasSubstr("\"digits\"")));
}

TEST_F(ServiceFixtureTest, DigitsAreWrittenOnceForEachNumberOfSamples) {
  EXPECT_EQ(DigitsUri(20), DigitsUri(20));
  EXPECT_NE(DigitsUri(20), DigitsUri(21));
}

}  // namespace
}  // namespace millrace::testing
