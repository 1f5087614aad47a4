#include "server/rpc/caller.h"

#include <string>

#include "gtest/gtest.h"

namespace millrace::rpc {
namespace {

TEST(CallerTest, AnIdTellsClientsApartAndThePortDoesNotMatter) {
  const std::string id("\x00\x01\xfe\xff", 4);
  const auto caller = CallerOf("ipv4:10.0.0.1:4711", id);
  ASSERT_TRUE(caller.ok());
  EXPECT_EQ(caller->client, "0001feff");
  EXPECT_EQ(caller->connection, "ipv4:10.0.0.1:4711");
  EXPECT_EQ(caller->peer, "ipv4:10.0.0.1");
}

TEST(CallerTest, WithoutAnIdTheConnectionIsTheClient) {
  const auto caller = CallerOf("ipv6:%5B::1%5D:9", "");
  ASSERT_TRUE(caller.ok());
  EXPECT_EQ(caller->client, "ipv6:%5B::1%5D:9");
  EXPECT_EQ(caller->peer, "ipv6:%5B::1%5D");
  EXPECT_EQ(CallerOf("unix:/run/m:1.sock", "")->peer, "unix:/run/m:1.sock");
}

TEST(CallerTest, RefusesAnIdThatIsTooLong) {
  EXPECT_TRUE(CallerOf("ipv4:1.1.1.1:1", std::string(64, 'x')).ok());
  EXPECT_EQ(CallerOf("ipv4:1.1.1.1:1", std::string(65, 'x')).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::rpc
