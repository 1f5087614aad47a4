// Whose process is at the other end of a TCP connection within this machine.

#include "server/rpc/peer_user.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"
#include "server/rpc/listen_sockets.h"

namespace millrace::rpc {
namespace {

constexpr uid_t kOther = 65534;

// Not in every sandbox, and only as root.
bool CanBecomeAnotherUser() {
  const pid_t child = fork();
  if (child == 0) _exit(setuid(kOther) == 0 ? 0 : 1);
  int status = 1;
  return waitpid(child, &status, 0) == child && status == 0;
}

UniqueFd ConnectTo(const ListenSockets& sockets) {
  UniqueFd client(socket(sockets.own_address.ss_family, SOCK_STREAM, 0));
  EXPECT_EQ(connect(client.get(),
                    reinterpret_cast<const sockaddr*>(&sockets.own_address),
                    sockets.own_address_bytes),
            0);
  return client;
}

UniqueFd AcceptOf(const ListenSockets& sockets) {
  while (true) {
    for (const UniqueFd& listener : sockets.fds) {
      UniqueFd connection(accept(listener.get(), nullptr, nullptr));
      if (connection.ok()) return connection;
    }
  }
}

class PeerUserTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto sockets = ListenOn({.host = GetParam(), .port = 0});
    if (!sockets.ok()) GTEST_SKIP() << sockets.status();
    sockets_ = *std::move(sockets);
  }
  ListenSockets sockets_;
};

TEST_P(PeerUserTest, OneOfOurOwnProcesses) {
  const UniqueFd client = ConnectTo(sockets_);
  const UniqueFd server = AcceptOf(sockets_);
  for (const auto& user :
       {TcpPeerUserByProc(server.get()), TcpPeerUser(server.get())}) {
    ASSERT_TRUE(user.ok()) << user.status();
    EXPECT_EQ(*user, geteuid());
  }
  // Some kernels do not have it; what it says is right.
  const auto asked = TcpPeerUserByNetlink(server.get());
  if (asked.ok()) {
    EXPECT_EQ(*asked, geteuid());
  }
}

TEST_P(PeerUserTest, AnotherUser) {
  if (!CanBecomeAnotherUser()) GTEST_SKIP() << "needs root";
  int end[2];
  ASSERT_EQ(pipe(end), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(end[1]);
    if (setuid(kOther) != 0) _exit(1);
    const UniqueFd client(
        socket(sockets_.own_address.ss_family, SOCK_STREAM, 0));
    if (connect(client.get(),
                reinterpret_cast<const sockaddr*>(&sockets_.own_address),
                sockets_.own_address_bytes) != 0) {
      _exit(2);
    }
    char byte;
    static_cast<void>(!read(end[0], &byte, 1));  // until the test has looked
    _exit(0);
  }
  close(end[0]);
  const UniqueFd server = AcceptOf(sockets_);
  for (const auto& user :
       {TcpPeerUserByProc(server.get()), TcpPeerUser(server.get())}) {
    EXPECT_TRUE(user.ok()) << user.status();
    if (user.ok()) {
      EXPECT_EQ(*user, kOther);
    }
  }
  const auto asked = TcpPeerUserByNetlink(server.get());
  if (asked.ok()) {
    EXPECT_EQ(*asked, kOther);
  }
  close(end[1]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// The wildcard address accepts IPv4 over an IPv6 socket.
INSTANTIATE_TEST_SUITE_P(Addresses, PeerUserTest,
                         ::testing::Values("127.0.0.1", "::1", "::"));

// As gRPC's clients connect. /proc/net/tcp does not have their end, so that
// without netlink every client of the own user was refused.
TEST(PeerUserOfMappedTest, AnIpv6SocketThatIsConnectedToAnIpv4Address) {
  const auto sockets = ListenOn({.host = "127.0.0.1", .port = 0});
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(sockets->own_address);
  sockaddr_in6 mapped = {};
  mapped.sin6_family = AF_INET6;
  mapped.sin6_port = v4.sin_port;
  mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
  std::memcpy(&mapped.sin6_addr.s6_addr[12], &v4.sin_addr, 4);
  const UniqueFd client(socket(AF_INET6, SOCK_STREAM, 0));
  const int only_v6 = 0;
  if (!client.ok() || setsockopt(client.get(), IPPROTO_IPV6, IPV6_V6ONLY,
                                 &only_v6, sizeof(only_v6)) != 0) {
    GTEST_SKIP() << "no IPv6";
  }
  ASSERT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&mapped),
                    sizeof(mapped)),
            0);
  const UniqueFd server = AcceptOf(*sockets);
  for (const auto& user :
       {TcpPeerUserByProc(server.get()), TcpPeerUser(server.get())}) {
    ASSERT_TRUE(user.ok()) << user.status();
    EXPECT_EQ(*user, geteuid());
  }
}

TEST(PeerUserOfNoneTest, WhatIsNoConnection) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  const UniqueFd one(pair[0]), other(pair[1]);
  EXPECT_EQ(TcpPeerUser(one.get()).status().code(),
            absl::StatusCode::kInvalidArgument);
  const UniqueFd alone(socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(TcpPeerUser(alone.get()).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace millrace::rpc
