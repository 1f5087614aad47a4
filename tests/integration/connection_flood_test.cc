// A real server that more clients connect to than it has descriptors for, and
// clients of one address that connect more often than they may: it says so,
// closes what is too much and serves on.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/receive/describe.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/rpc_client.h"
#include "tests/testing/server_process.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using testing::RpcClient;
using testing::ServerProcess;

UniqueFd ConnectTo(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(
      connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
  return fd;
}

// Waits until the server has greeted the connection or closed it. True: it
// lives.
bool IsServed(const UniqueFd& fd) {
  pollfd polled = {fd.get(), POLLIN | POLLRDHUP, 0};
  if (poll(&polled, 1, 30'000) != 1) return false;
  char byte;
  return recv(fd.get(), &byte, 1, MSG_PEEK) == 1;  // its SETTINGS
}

int Served(const std::vector<UniqueFd>& clients) {
  int served = 0;
  for (const UniqueFd& client : clients) served += IsServed(client);
  return served;
}

// A new connection's call is answered; retried, because the server may still
// have to notice that others have ended.
absl::StatusOr<GetStatusResponse> StatusOf(const std::string& address) {
  const absl::Time give_up = absl::Now() + absl::Seconds(30);
  while (true) {
    RpcClient client(address);
    auto status = client.GetStatus();
    if (status.ok() || absl::Now() > give_up) return status;
    absl::SleepFor(absl::Milliseconds(20));
  }
}

TEST(ConnectionFloodTest, AServerWithoutDescriptorsAcceptsAgain) {
  auto server =
      ServerProcess::Start({"--synthetic_only", "--max_connections=100000",
                            "--max_connections_per_peer=100000"});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->address();
  // Lowered only now: the server raises it at its start.
  const rlimit small = {100, 100};
  ASSERT_EQ(prlimit((*server)->process().pid(), RLIMIT_NOFILE, &small, nullptr),
            0);
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 300; ++i) clients.push_back(ConnectTo((*server)->port()));
  const int served = Served(clients);
  EXPECT_GT(served, 20);
  EXPECT_LT(served, 100);
  clients.clear();

  const auto status = StatusOf(address);
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_GE(status->refused_connections(), 200);
  EXPECT_TRUE((*server)->process().Running());
  EXPECT_EQ((*server)->Stop(), 0);
  const std::string log = (*server)->process().Stderr();
  EXPECT_THAT(log, HasSubstr("connection of 127.0.0.1:"));
  EXPECT_THAT(log, HasSubstr("refused: Too many open files"));
}

TEST(ConnectionFloodTest, OneAddressHasItsLimit) {
  auto server = ServerProcess::Start(
      {"--synthetic_only", "--max_connections_per_peer=5"});
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<UniqueFd> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(ConnectTo((*server)->port()));
  // The watchdog's own connection may come between.
  const int served = Served(clients);
  EXPECT_GE(served, 4);
  EXPECT_LE(served, 5);
  clients.clear();
  const auto status = StatusOf((*server)->address());
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_GE(status->refused_connections(), 15);
  EXPECT_EQ((*server)->Stop(), 0);
  EXPECT_THAT((*server)->process().Stderr(),
              HasSubstr("--max_connections_per_peer"));
}

// All that a refused client saw was "Socket closed".
TEST(ConnectionFloodTest, ARefusedClientLearnsOfTheLimits) {
  auto server = ServerProcess::Start(
      {"--synthetic_only", "--max_connections_per_peer=1"});
  ASSERT_TRUE(server.ok()) << server.status();
  const UniqueFd first = ConnectTo((*server)->port());
  ASSERT_TRUE(IsServed(first));
  for (int i = 0; i < 10; ++i) {
    const auto status = GetServerStatus((*server)->address());
    ASSERT_TRUE(status.ok()) << status.status();
    ASSERT_EQ(status->size(), 1);
    const absl::Status refused = (*status)[0].status.status();
    EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("--max_connections_per_peer"));
  }
}

}  // namespace
}  // namespace millrace
