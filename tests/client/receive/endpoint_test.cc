#include "client/receive/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::receive {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(EndpointTest, TakesSeveralHostsApart) {
  auto hosts = ParseEndpoint("data-1:7001, 10.0.0.7:80,[::1]:65535");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  ASSERT_THAT(*hosts, SizeIs(3));
  EXPECT_EQ((*hosts)[0].host, "data-1");
  EXPECT_EQ((*hosts)[0].port, "7001");
  EXPECT_FALSE((*hosts)[0].numeric);
  EXPECT_EQ((*hosts)[1].text, "10.0.0.7:80");
  EXPECT_TRUE((*hosts)[1].numeric);
  EXPECT_EQ((*hosts)[2].host, "::1");
  EXPECT_TRUE((*hosts)[2].numeric);
}

TEST(EndpointTest, NamesThePartThatIsWrong) {
  for (const char* bad :
       {"", "data-1", "data-1:", ":7001", "data-1:0", "data-1:65536",
        "data-1:+1", "data-1:7001x", "http://data-1:7001", "::1:7001", "[::1]",
        "a:1,,b:2", "a:1,b"}) {
    const absl::Status status = ParseEndpoint(bad).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad << ": " << status;
    EXPECT_THAT(status.message(), HasSubstr("host:port"));
  }
  EXPECT_THAT(ParseEndpoint("a:1,b").status().message(), HasSubstr("`b`"));
}

TEST(EndpointTest, ResolvesNumbersAndNamesToTargets) {
  auto hosts = ParseEndpoint("127.0.0.1:1,localhost:2,[::1]:3,127.0.0.1:1");
  ASSERT_TRUE(hosts.ok());
  auto addresses = ResolveHosts(*hosts);
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  ASSERT_THAT(*addresses, SizeIs(3)) << "an address given twice counts once";
  EXPECT_EQ((*addresses)[0].target, "ipv4:127.0.0.1:1");
  EXPECT_EQ((*addresses)[0].text, "127.0.0.1:1");
  EXPECT_EQ((*addresses)[1].target, "ipv4:127.0.0.1:2")
      << "IPv4 stands for a name with both";
  EXPECT_EQ((*addresses)[1].authority, "localhost:2");
  EXPECT_EQ((*addresses)[1].text, "localhost:2 (127.0.0.1)");
  EXPECT_EQ((*addresses)[2].target, "ipv6:[::1]:3");
}

TEST(EndpointTest, AHostWithoutAnAddressIsNamedAndTheRestUsed) {
  auto hosts = ParseEndpoint("127.0.0.1:1,no-such-host.invalid:2");
  ASSERT_TRUE(hosts.ok());
  std::string trouble;
  auto addresses = ResolveHosts(*hosts, &trouble);
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  EXPECT_THAT(*addresses, SizeIs(1));
  EXPECT_THAT(trouble, HasSubstr("no-such-host.invalid"));

  auto none = ParseEndpoint("no-such-host.invalid:2");
  const absl::Status status = ResolveHosts(*none).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("no-such-host.invalid"));
}

}  // namespace
}  // namespace millrace::receive
