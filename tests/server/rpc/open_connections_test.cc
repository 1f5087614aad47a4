// Limits of connections, over descriptors that are made up.

#include "server/rpc/open_connections.h"

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <string>

#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class OpenConnectionsTest : public ::testing::Test {
 protected:
  void Add(int fd, const std::string& peer, int port = 1) {
    inodes_[fd] = ++last_inode_;
    open_.Add(fd, peer, port);
  }
  // Later than the next look at what has ended.
  std::string Refusal(const std::string& peer) {
    now_ += std::chrono::seconds(1);
    return open_.Refusal(peer, now_);
  }

  std::map<int, uint64_t> inodes_;  // of what is open
  uint64_t last_inode_ = 100;
  SteadyTime now_{std::chrono::seconds(1000)};
  OpenConnections open_{{.total = 4, .per_peer = 2}, [this](int fd) {
                          const auto at = inodes_.find(fd);
                          return at == inodes_.end() ? 0 : at->second;
                        }};
};

TEST_F(OpenConnectionsTest, OnePeerLeavesRoomForOthers) {
  Add(10, "10.0.0.1");
  EXPECT_EQ(Refusal("10.0.0.1"), "");
  Add(11, "10.0.0.1");
  EXPECT_THAT(Refusal("10.0.0.1"), HasSubstr("--max_connections_per_peer"));
  EXPECT_THAT(Refusal("10.0.0.1"), HasSubstr("10.0.0.1 has 2 connections"));
  EXPECT_EQ(Refusal("10.0.0.2"), "");
}

TEST_F(OpenConnectionsTest, AllPeersTogetherAreBounded) {
  for (int i = 0; i < 4; ++i) Add(10 + i, "10.0.0." + std::to_string(i));
  EXPECT_THAT(Refusal("10.0.0.9"), HasSubstr("(--max_connections)"));
}

TEST_F(OpenConnectionsTest, WhatHasEndedDoesNotCount) {
  Add(10, "10.0.0.1");
  Add(11, "10.0.0.1");
  EXPECT_NE(Refusal("10.0.0.1"), "");
  inodes_.erase(10);
  EXPECT_EQ(Refusal("10.0.0.1"), "");
  EXPECT_EQ(open_.total(), 1);
}

// gRPC has closed the socket, and a file has its descriptor now.
TEST_F(OpenConnectionsTest, ADescriptorThatIsUsedAgainIsNoConnection) {
  Add(10, "10.0.0.1");
  Add(11, "10.0.0.1");
  inodes_[10] = ++last_inode_;
  EXPECT_EQ(Refusal("10.0.0.1"), "");
  // As a connection of another peer.
  Add(11, "10.0.0.2");
  EXPECT_EQ(open_.total(), 1);
  Add(12, "10.0.0.1");
  EXPECT_EQ(Refusal("10.0.0.1"), "");
}

TEST_F(OpenConnectionsTest, FindsThoseThatLiveByTheirAddress) {
  Add(10, "10.0.0.1", 5000);
  Add(11, "10.0.0.1", 5001);
  Add(12, "::1", 5000);
  EXPECT_THAT(open_.Find({"10.0.0.1:5001", "::1:5000", "10.0.0.9:5000"}),
              UnorderedElementsAre(11, 12));
  // gRPC has closed it, and a file has its descriptor now.
  inodes_[11] = ++last_inode_;
  EXPECT_THAT(open_.Find({"10.0.0.1:5001"}), IsEmpty());
}

TEST_F(OpenConnectionsTest, SocketsHaveNamesOfTheirOwn) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  const int fd = pair[0];
  const uint64_t inode = InodeOf(fd);
  EXPECT_NE(inode, 0);
  EXPECT_NE(inode, InodeOf(pair[1]));
  close(pair[0]);
  EXPECT_NE(InodeOf(fd), inode);
  close(pair[1]);
}

// The log named a flag that was not set.
TEST(ConnectionLimitsTest, ARefusalNamesTheLimitOfOpenFiles) {
  const SteadyTime now{std::chrono::seconds(1000)};
  const auto inode = [](int fd) -> uint64_t { return fd; };
  OpenConnections open(DefaultConnectionLimits(64, 20, {}), inode);
  for (int fd = 1; fd <= 4; ++fd) open.Add(fd, "10.0.0.1", fd);
  EXPECT_THAT(open.Refusal("10.0.0.1", now),
              HasSubstr("10.0.0.1 has 4 connections; the maximum is 4 for one "
                        "address (half of the maximum of 8 for all addresses, "
                        "which follows from the limit of open files: ulimit "
                        "-n is 64; "));
  for (int fd = 5; fd <= 8; ++fd) open.Add(fd, "10.0.0.2", fd);
  EXPECT_THAT(open.Refusal("10.0.0.3", now),
              HasSubstr("8 connections are open; the maximum is 8 (it follows "
                        "from the limit of open files: ulimit -n is 64"));
  OpenConnections set(DefaultConnectionLimits(64, 20, {.total = 2}), inode);
  set.Add(1, "10.0.0.1", 1);
  EXPECT_THAT(set.Refusal("10.0.0.1", now),
              HasSubstr("(half of the maximum of 2 for all addresses "
                        "(--max_connections); "));
}

TEST(ConnectionLimitsTest, FewConnectionsForLackOfFilesCauseAWarning) {
  EXPECT_THAT(ConnectionsWarning(DefaultConnectionLimits(64, 20, {})),
              HasSubstr("the limit of open files is 64 (ulimit -n): the server "
                        "accepts at most 8 connections, 4 of one address"));
  EXPECT_THAT(
      ConnectionsWarning(DefaultConnectionLimits(1024, 20, {.per_peer = 2000})),
      HasSubstr("at most 876 connections, fewer than "
                "--max_connections_per_peer, which is 2000"));
  EXPECT_EQ(ConnectionsWarning(DefaultConnectionLimits(1024, 20, {})), "");
  EXPECT_EQ(ConnectionsWarning(DefaultConnectionLimits(64, 20, {.total = 8})),
            "");
}

TEST(ConnectionLimitsTest, LeaveRoomForFiles) {
  const ConnectionLimits usual = DefaultConnectionLimits(65536, 36, {});
  EXPECT_EQ(usual.total, 65536 - 36 - 8192);
  EXPECT_EQ(usual.per_peer, usual.total / 2);
  const ConnectionLimits small = DefaultConnectionLimits(1024, 30, {});
  EXPECT_EQ(small.total, 1024 - 30 - 128);
  // Never none.
  EXPECT_GT(DefaultConnectionLimits(64, 50, {}).per_peer, 0);
  const ConnectionLimits asked =
      DefaultConnectionLimits(1024, 30, {.total = 5000, .per_peer = 0});
  EXPECT_EQ(asked.total, 5000);
  EXPECT_EQ(asked.per_peer, 2500);
}

}  // namespace
}  // namespace millrace::rpc
