// Addresses to listen on, and the reasons why one cannot.

#include "server/rpc/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/listener.h"

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
  Listener listener;
  ASSERT_TRUE(listener.good());
  const int port = listener.port();

  const absl::Status taken = CheckPortIsFree({"127.0.0.1", port});
  EXPECT_EQ(taken.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(taken.message()),
              HasSubstr("port " + std::to_string(port)));
  listener.Close();
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

// The addresses of a name, one after the other, all with one port.
class Addresses {
 public:
  Addresses(std::initializer_list<const char*> texts, int port)
      : names_(texts.size()), infos_(texts.size()) {
    size_t i = 0;
    for (const char* text : texts) {
      names_[i].sin_family = AF_INET;
      names_[i].sin_port = htons(port);
      EXPECT_EQ(inet_pton(AF_INET, text, &names_[i].sin_addr), 1);
      infos_[i].ai_family = AF_INET;
      infos_[i].ai_socktype = SOCK_STREAM;
      infos_[i].ai_addr = reinterpret_cast<sockaddr*>(&names_[i]);
      infos_[i].ai_addrlen = sizeof(sockaddr_in);
      if (i > 0) infos_[i - 1].ai_next = &infos_[i];
      ++i;
    }
  }
  const addrinfo* get() const { return infos_.data(); }

 private:
  std::vector<sockaddr_in> names_;
  std::vector<addrinfo> infos_;
};

// As "localhost" of a container without IPv6, whose /etc/hosts has ::1 still.
TEST(ListenAddressTest, OneAddressOfANameIsEnough) {
  const ListenAddress name = {"name", 0};
  for (const auto& texts : {Addresses({"192.0.2.1", "127.0.0.1"}, 0),
                            Addresses({"127.0.0.1", "192.0.2.1"}, 0)}) {
    const absl::Status status = CheckAddressesAreFree(name, texts.get());
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(CheckAddressesAreFree(
                name, Addresses({"192.0.2.1", "192.0.2.1"}, 0).get())
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ListenAddressTest, APortThatIsTakenOnOneAddressOfANameIsTaken) {
  const Listener listener;
  ASSERT_TRUE(listener.good());
  const int port = listener.port();
  EXPECT_EQ(
      CheckAddressesAreFree({"name", port},
                            Addresses({"127.0.0.2", "127.0.0.1"}, port).get())
          .code(),
      absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace millrace
