#include "client/receive/round_trip.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/receive/channel.h"
#include "tests/testing/listener.h"

namespace millrace::receive {
namespace {

Address At(const std::string& target) { return {target, target, target}; }

TEST(RoundTripTest, MeasuresServersThatListenAndNoOthers) {
  Listener there;
  Listener gone;
  ASSERT_TRUE(there.good());
  ASSERT_TRUE(gone.good());
  gone.Close();
  std::vector<Address> addresses = {
      At(absl::StrCat("ipv4:127.0.0.1:", there.port())),
      At(absl::StrCat("ipv4:127.0.0.1:", gone.port())),
      At("unix:/run/nobody"),
      At("ipv4:no-address:7001"),
      At("ipv6:[::1:7001"),
      At("")};
  MeasureRoundTrips(absl::Seconds(10), absl::MakeSpan(addresses));
  ASSERT_TRUE(addresses[0].round_trip.has_value());
  EXPECT_GT(*addresses[0].round_trip, absl::ZeroDuration());
  EXPECT_LT(*addresses[0].round_trip, absl::Seconds(10));
  for (size_t i = 1; i < addresses.size(); ++i) {
    EXPECT_EQ(addresses[i].round_trip, absl::InfiniteDuration())
        << addresses[i].target;
  }
}

TEST(RoundTripTest, MeasuresIpv6) {
  Listener there(/*v6=*/true);
  if (!there.good()) GTEST_SKIP() << "this machine has no IPv6 loopback";
  std::vector<Address> addresses = {
      At(absl::StrCat("ipv6:[::1]:", there.port()))};
  MeasureRoundTrips(absl::Seconds(10), absl::MakeSpan(addresses));
  EXPECT_LT(*addresses[0].round_trip, absl::Seconds(10));
}

TEST(RoundTripTest, KeepsWhatIsKnown) {
  std::vector<Address> addresses = {At("ipv4:127.0.0.1:1")};
  addresses[0].round_trip = absl::Milliseconds(7);
  MeasureRoundTrips(absl::Seconds(10), absl::MakeSpan(addresses));
  EXPECT_EQ(addresses[0].round_trip, absl::Milliseconds(7));
}

TEST(RoundTripTest, NearIsAShortRoundTripForLargeBatches) {
  Address address = At("ipv4:127.0.0.1:7001");
  EXPECT_FALSE(IsNear(address, kLargeBatchBytes)) << "not measured";
  address.round_trip = kNearRoundTrip - absl::Microseconds(1);
  EXPECT_TRUE(IsNear(address, kLargeBatchBytes));
  EXPECT_FALSE(IsNear(address, kLargeBatchBytes - 1));
  EXPECT_FALSE(IsNear(address, 0));
  address.round_trip = kNearRoundTrip;
  EXPECT_FALSE(IsNear(address, kLargeBatchBytes));
  address.round_trip = absl::InfiniteDuration();
  EXPECT_FALSE(IsNear(address, kLargeBatchBytes));
}

}  // namespace
}  // namespace millrace::receive
