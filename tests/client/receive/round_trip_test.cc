#include "client/receive/round_trip.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/receive/channel.h"

namespace millrace {
namespace {

// Listens on the loopback; nobody ever accepts, which the kernel's answer to a
// connection does not need.
class Listener {
 public:
  explicit Listener(bool v6 = false)
      : fd_(socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0)) {
    sockaddr_storage storage = {};
    socklen_t length = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    storage.ss_family = v6 ? AF_INET6 : AF_INET;
    if (v6) {
      reinterpret_cast<sockaddr_in6*>(&storage)->sin6_addr = in6addr_loopback;
    } else {
      reinterpret_cast<sockaddr_in*>(&storage)->sin_addr.s_addr =
          htonl(INADDR_LOOPBACK);
    }
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    good_ = fd_ >= 0 && bind(fd_, address, length) == 0 &&
            listen(fd_, 16) == 0 && getsockname(fd_, address, &length) == 0;
    port_ = ntohs(v6 ? reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port
                     : reinterpret_cast<sockaddr_in*>(&storage)->sin_port);
  }
  ~Listener() { Close(); }

  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  bool good() const { return good_; }
  int port() const { return port_; }

 private:
  int fd_;
  bool good_ = false;
  int port_ = 0;
};

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
}  // namespace millrace
