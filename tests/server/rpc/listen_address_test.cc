// Addresses to listen on, and the reasons why one cannot.

#include "server/rpc/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
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

TEST(ListenAddressTest, NamesThePortThatIsTaken) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(name);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&name), length), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length), 0);
  const int port = ntohs(name.sin_port);

  const absl::Status taken = CheckPortIsFree({"127.0.0.1", port});
  EXPECT_EQ(taken.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(taken.message()),
              HasSubstr("port " + std::to_string(port)));
  close(fd);
  EXPECT_TRUE(CheckPortIsFree({"127.0.0.1", port}).ok());
}

TEST(ListenAddressTest, NamesAHostThatIsNotHere) {
  // TEST-NET-1: no machine has it.
  const absl::Status away = CheckPortIsFree({"192.0.2.1", 7001});
  EXPECT_EQ(away.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(away.message()), HasSubstr("192.0.2.1:7001"));
  EXPECT_EQ(CheckPortIsFree({"no such host", 7001}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace
