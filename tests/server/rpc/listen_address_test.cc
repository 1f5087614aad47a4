// Addresses to listen on, as text.

#include "server/rpc/listen_address.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::rpc {
namespace {

using ::testing::HasSubstr;

TEST(ListenAddressTest, ReadsHostAndPort) {
  EXPECT_EQ(ParseListenAddress("0.0.0.0:7001")->Text(), "0.0.0.0:7001");
  EXPECT_EQ(ParseListenAddress("localhost:0")->port, 0);
  EXPECT_EQ(ParseListenAddress("[::1]:65535")->host, "::1");
  EXPECT_EQ(ParseListenAddress("[::1]:65535")->Text(), "[::1]:65535");
}

TEST(ListenAddressTest, RefusesWhatIsNone) {
  for (const char* text : {"", "7001", "host", ":7001", "host:", "host:x",
                           "host:-1", "host:65536", "::1:7001", "[]:7001"}) {
    const auto address = ParseListenAddress(text);
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_THAT(std::string(address.status().message()),
                HasSubstr("HOST:PORT"));
  }
}

}  // namespace
}  // namespace millrace::rpc
