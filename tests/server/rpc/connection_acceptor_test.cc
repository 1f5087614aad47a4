// The server's own accept loop: limits, and a process without descriptors.

#include "server/rpc/connection_acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace millrace::rpc {
namespace {

class ConnectionAcceptorTest : public ::testing::Test {
 protected:
  void Start(const ConnectionLimits& limits,
             std::function<std::string(int)> refusal = nullptr) {
    auto sockets = ListenOn({"127.0.0.1", 0});
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    auto acceptor = ConnectionAcceptor::Start(
        *std::move(sockets), {.limits = limits,
                              .take =
                                  [this](int, UniqueFd connection) {
                                    MutexLock lock(mu_);
                                    taken_.push_back(std::move(connection));
                                    changed_.NotifyAll();
                                  },
                              .refusal = std::move(refusal),
                              .refused = &refused_});
    ASSERT_TRUE(acceptor.ok()) << acceptor.status();
    acceptor_ = *std::move(acceptor);
  }

  // A client's socket, not connected yet.
  UniqueFd NewSocket() {
    return UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  }
  bool Connect(const UniqueFd& fd) {
    const ListenSockets& sockets = acceptor_->sockets();
    return connect(fd.get(),
                   reinterpret_cast<const sockaddr*>(&sockets.own_address),
                   sockets.own_address_bytes) == 0;
  }
  // The same for a connection that is announced by LetIn().
  bool ConnectLetIn(const UniqueFd& probe) {
    sockaddr_storage own = acceptor_->sockets().own_address;
    reinterpret_cast<sockaddr_in&>(own).sin_port = 0;
    auto* const address = reinterpret_cast<sockaddr*>(&own);
    socklen_t bytes = sizeof(sockaddr_in);
    if (bind(probe.get(), address, bytes) != 0 ||
        getsockname(probe.get(), address, &bytes) != 0) {
      return false;
    }
    acceptor_->LetIn(own);
    return Connect(probe);
  }
  // The other side has closed the connection; waits for that.
  bool IsClosed(const UniqueFd& fd) {
    pollfd polled = {fd.get(), POLLIN | POLLRDHUP, 0};
    if (poll(&polled, 1, 30'000) != 1) return false;
    char byte;
    return recv(fd.get(), &byte, 1, 0) <= 0;
  }
  void AwaitTaken(size_t count) {
    MutexLock lock(mu_);
    while (taken_.size() < count) changed_.Wait(lock);
  }
  size_t taken() {
    MutexLock lock(mu_);
    return taken_.size();
  }
  void CloseTaken() {
    MutexLock lock(mu_);
    taken_.clear();
  }

  std::atomic<uint64_t> refused_{0};
  Mutex mu_;
  CondVar changed_;
  std::vector<UniqueFd> taken_ MR_GUARDED_BY(mu_);
  std::unique_ptr<ConnectionAcceptor> acceptor_;
};

TEST_F(ConnectionAcceptorTest, ConnectionsAboveTheLimitAreClosed) {
  Start({.total = 10, .per_peer = 2});
  UniqueFd clients[] = {NewSocket(), NewSocket(), NewSocket()};
  for (const UniqueFd& client : clients) ASSERT_TRUE(Connect(client));
  EXPECT_TRUE(IsClosed(clients[2]));
  EXPECT_EQ(taken(), 2);
  EXPECT_EQ(refused_, 1);
}

TEST_F(ConnectionAcceptorTest, TheServersOwnProbeIsLetIn) {
  Start({.total = 1, .per_peer = 1});
  const UniqueFd first = NewSocket();
  ASSERT_TRUE(Connect(first));
  AwaitTaken(1);
  const UniqueFd probe = NewSocket();
  ASSERT_TRUE(ConnectLetIn(probe));
  AwaitTaken(2);
  const UniqueFd other = NewSocket();
  ASSERT_TRUE(Connect(other));
  EXPECT_TRUE(IsClosed(other));
}

// Without its probe, the server would take itself for one that hangs.
TEST_F(ConnectionAcceptorTest, WhatTheOwnerRefusesIsClosedExceptTheProbe) {
  std::atomic<int> asked{0};
  Start({.total = 10, .per_peer = 10},
        [&asked](int) { return ++asked == 2 ? "" : "it is of another user"; });
  const UniqueFd refused = NewSocket(), served = NewSocket(),
                 probe = NewSocket();
  ASSERT_TRUE(Connect(refused));
  EXPECT_TRUE(IsClosed(refused));
  EXPECT_EQ(taken(), 0);
  EXPECT_EQ(refused_, 1);
  ASSERT_TRUE(Connect(served));
  AwaitTaken(1);
  ASSERT_TRUE(ConnectLetIn(probe));
  AwaitTaken(2);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(refused_, 1);
  acceptor_ = nullptr;  // uses `asked`
}

TEST_F(ConnectionAcceptorTest, ClosesConnectionsByTheirAddress) {
  Start({.total = 10, .per_peer = 10});
  UniqueFd clients[] = {NewSocket(), NewSocket()};
  std::string names[2];
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Connect(clients[i]));
    sockaddr_in own = {};
    socklen_t bytes = sizeof(own);
    ASSERT_EQ(getsockname(clients[i].get(), reinterpret_cast<sockaddr*>(&own),
                          &bytes),
              0);
    names[i] = "127.0.0.1:" + std::to_string(ntohs(own.sin_port));
  }
  AwaitTaken(2);
  EXPECT_EQ(acceptor_->Close({names[0], "127.0.0.1:1"}), 1);
  EXPECT_TRUE(IsClosed(clients[0]));
  // The other one still carries bytes.
  EXPECT_EQ(send(clients[1].get(), "x", 1, MSG_NOSIGNAL), 1);
  char byte = 0;
  MutexLock lock(mu_);
  pollfd polled = {taken_[1].get(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, 30'000), 1);
  EXPECT_EQ(recv(taken_[1].get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
}

// gRPC 1.51's own loop never accepts again after this.
TEST_F(ConnectionAcceptorTest, AcceptsAgainWhenThereAreDescriptorsAgain) {
  Start({.total = 1000, .per_peer = 1000});
  UniqueFd clients[] = {NewSocket(), NewSocket(), NewSocket()};
  // No further descriptor, of whatever number.
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  std::vector<UniqueFd> fillers;
  while (true) {
    UniqueFd filler(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!filler.ok()) break;
    fillers.push_back(std::move(filler));
    if (fillers.size() == 1) {
      rlimit small = before;
      small.rlim_cur = fillers[0].get() + 8;
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &small), 0);
    }
  }
  ASSERT_TRUE(Connect(clients[0]));
  EXPECT_TRUE(IsClosed(clients[0]));
  ASSERT_TRUE(Connect(clients[1]));
  EXPECT_TRUE(IsClosed(clients[1]));
  EXPECT_EQ(refused_, 2);
  EXPECT_EQ(taken(), 0);

  fillers.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(Connect(clients[2]));
  AwaitTaken(1);
}

TEST_F(ConnectionAcceptorTest, StopClosesTheListeningSockets) {
  Start({.total = 10, .per_peer = 10});
  acceptor_->Stop();
  acceptor_->Stop();
  EXPECT_FALSE(Connect(NewSocket()));
}

}  // namespace
}  // namespace millrace::rpc
