// Sockets to listen on, and the reasons why there are none.

#include "server/rpc/listen_sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/listener.h"

namespace millrace::rpc {
namespace {

using ::testing::HasSubstr;

absl::Status Listening(const ListenAddress& address) {
  return ListenOn(address).status();
}

TEST(ListenSocketsTest, NamesThePortThatIsTaken) {
  Listener listener;
  ASSERT_TRUE(listener.good());
  const int port = listener.port();

  const absl::Status taken = Listening({"127.0.0.1", port});
  EXPECT_EQ(taken.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(taken.message()),
              HasSubstr("port " + std::to_string(port)));
  listener.Close();
  EXPECT_TRUE(Listening({"127.0.0.1", port}).ok());
}

TEST(ListenSocketsTest, NamesAHostThatIsNotHere) {
  // TEST-NET-1: no machine has it.
  const absl::Status away = Listening({"192.0.2.1", 7001});
  EXPECT_EQ(away.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(away.message()), HasSubstr("192.0.2.1:7001"));
  EXPECT_EQ(Listening({"no such host", 7001}).code(),
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
TEST(ListenSocketsTest, OneAddressOfANameIsEnough) {
  const ListenAddress name = {"name", 0};
  for (const auto& texts : {Addresses({"192.0.2.1", "127.0.0.1"}, 0),
                            Addresses({"127.0.0.1", "192.0.2.1"}, 0)}) {
    const absl::Status status = ListenOnAddresses(name, texts.get()).status();
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(
      ListenOnAddresses(name, Addresses({"192.0.2.1", "192.0.2.1"}, 0).get())
          .status()
          .code(),
      absl::StatusCode::kInvalidArgument);
}

TEST(ListenSocketsTest, APortThatIsTakenOnOneAddressOfANameIsTaken) {
  const Listener listener;
  ASSERT_TRUE(listener.good());
  const int port = listener.port();
  EXPECT_EQ(ListenOnAddresses({"name", port},
                              Addresses({"127.0.0.2", "127.0.0.1"}, port).get())
                .status()
                .code(),
            absl::StatusCode::kAlreadyExists);
}

// Whether somebody accepts there.
bool Connects(const sockaddr_storage& address, socklen_t bytes) {
  const UniqueFd fd(socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return fd.ok() &&
         connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                 bytes) == 0;
}

TEST(ListenSocketsTest, AWildcardTakesIpv4AndTellsItsOwnAddress) {
  for (const char* host : {"0.0.0.0", "127.0.0.1", "localhost"}) {
    const auto sockets = ListenOn({host, 0});
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    ASSERT_GT(sockets->port, 0);
    sockaddr_in v4 = {};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(sockets->port);
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_storage loopback = {};
    std::memcpy(&loopback, &v4, sizeof(v4));
    EXPECT_TRUE(Connects(loopback, sizeof(v4))) << host;
    EXPECT_TRUE(Connects(sockets->own_address, sockets->own_address_bytes))
        << host;
  }
}

}  // namespace
}  // namespace millrace::rpc
