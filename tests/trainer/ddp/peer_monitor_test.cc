#include "trainer/ddp/peer_monitor.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "trainer/ddp/local_address.h"
#include "trainer/ddp/replica_check.h"

namespace millrace::ddp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kToken[] = "c0ffee";
// As long as a wait may last that is expected to end well.
constexpr absl::Duration kLong = absl::Seconds(60);

PeerMonitor::Options OptionsOf(uint32_t rank, uint32_t world,
                               absl::Duration heartbeat_timeout = kLong) {
  return {.rank = rank,
          .world_size = world,
          .host = absl::StrCat("host-", rank),
          .token = kToken,
          .heartbeat_timeout = heartbeat_timeout};
}

class PeerMonitors : public ::testing::Test {
 protected:
  void Start(uint32_t world, absl::Duration heartbeat_timeout = kLong) {
    auto first =
        PeerMonitor::Listen(OptionsOf(0, world, heartbeat_timeout), true);
    ASSERT_TRUE(first.ok()) << first.status();
    monitors_.push_back(*std::move(first));
    for (uint32_t rank = 1; rank < world; ++rank)
      Join(rank, world, heartbeat_timeout);
  }
  void Join(uint32_t rank, uint32_t world,
            absl::Duration heartbeat_timeout = kLong) {
    auto one = PeerMonitor::Connect(OptionsOf(rank, world, heartbeat_timeout),
                                    "127.0.0.1", monitors_[0]->port(), kLong);
    ASSERT_TRUE(one.ok()) << one.status();
    monitors_.push_back(*std::move(one));
  }
  // What that rank says of the one that is missing.
  std::string Says(size_t rank) {
    const auto missing = monitors_[rank]->AwaitMissing(kLong);
    return missing.has_value()
               ? missing->Sentence(static_cast<uint32_t>(monitors_.size()))
               : "nobody is missing";
  }
  // A rank that is only a connection, as a process that can be killed.
  int Connect() {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(monitors_[0]->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(
        connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }
  static void Send(int fd, const std::string& text) {
    EXPECT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // One line, or "" at the end of the connection.
  static std::string Line(int fd) {
    std::string line;
    char c = 0;
    while (recv(fd, &c, 1, 0) == 1) {
      if (c == '\n') return line;
      line += c;
    }
    return "";
  }

  std::vector<std::unique_ptr<PeerMonitor>> monitors_;
};

TEST_F(PeerMonitors, TellAllRanksWhyOneHasEnded) {
  Start(3);
  monitors_[2]->End("the loss is nan\nat epoch 1");
  for (size_t rank : {0, 1}) {
    EXPECT_EQ(Says(rank),
              "rank 2 of 3 on host host-2 has ended: the loss is nan at epoch "
              "1");
  }
}

TEST_F(PeerMonitors, TellTheOthersWhenRankZeroHasEnded) {
  Start(3);
  monitors_[0]->End("the disk is full");
  for (size_t rank : {1, 2}) {
    EXPECT_EQ(Says(rank),
              "rank 0 of 3 on host host-0 has ended: the disk is full");
  }
}

TEST_F(PeerMonitors, AreQuietWhenAllEndWell) {
  Start(3);
  // The first to go leaves the others at work.
  monitors_[1]->End("");
  monitors_[0]->End("");
  EXPECT_FALSE(monitors_[2]->AwaitMissing(absl::Milliseconds(50)).has_value());
  monitors_[2]->End("");
  for (const auto& monitor : monitors_)
    EXPECT_FALSE(monitor->Missing().has_value());
}

TEST_F(PeerMonitors, NameAProcessThatDies) {
  Start(2);
  monitors_.clear();
  auto first = PeerMonitor::Listen(OptionsOf(0, 3), true);
  ASSERT_TRUE(first.ok());
  monitors_.push_back(*std::move(first));
  Join(1, 3);
  const int fd = Connect();
  Send(fd, "millrace-peer-1 c0ffee 2 far-away\n");
  EXPECT_EQ(Line(fd), "millrace-peer-1 host-0");
  close(fd);
  for (size_t rank : {0, 1}) {
    EXPECT_THAT(monitors_[rank]->AwaitMissing(kLong)->Sentence(3),
                AllOf(HasSubstr("rank 2 of 3 on host far-away is gone"),
                      HasSubstr("killed or crashed")));
  }
}

TEST_F(PeerMonitors, NameAMachineThatIsSilent) {
  auto first = PeerMonitor::Listen(OptionsOf(0, 3, absl::Seconds(2)), true);
  ASSERT_TRUE(first.ok());
  monitors_.push_back(*std::move(first));
  Join(1, 3, absl::Seconds(2));
  // It stays connected and says nothing more.
  const int fd = Connect();
  Send(fd, "millrace-peer-1 c0ffee 2 far-away\n");
  for (size_t rank : {0, 1}) {
    EXPECT_EQ(monitors_[rank]->AwaitMissing(kLong)->Sentence(3),
              "rank 2 of 3 on host far-away is gone: no heartbeat for 2s");
  }
  close(fd);
}

TEST_F(PeerMonitors, NameARankThatNeverCame) {
  Start(2);
  monitors_.clear();
  auto first = PeerMonitor::Listen(OptionsOf(0, 2, absl::Seconds(2)), true);
  ASSERT_TRUE(first.ok());
  EXPECT_THAT((*first)->AwaitMissing(kLong)->Sentence(2),
              HasSubstr("rank 1 of 2"));
}

TEST_F(PeerMonitors, GoOnWhileSomebodyIsMissing) {
  std::atomic<int> calls{0};
  PeerMonitor::Options options = OptionsOf(0, 2, absl::Milliseconds(200));
  options.while_missing = [&calls](const PeerMonitor::MissingRank& missing) {
    EXPECT_EQ(missing.rank, 1u);
    ++calls;
  };
  auto first = PeerMonitor::Listen(options, true);
  ASSERT_TRUE(first.ok());
  while (calls < 3) std::this_thread::yield();
  (*first)->End("");
}

// Anybody may connect to an open port.
TEST_F(PeerMonitors, DoNotListenToStrangers) {
  Start(2);
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\n\r\n"),
        std::string("millrace-peer-1 wrong 1 host\n"),
        std::string("millrace-peer-1 c0ffee 1 host\n"),  // is there already
        std::string("millrace-peer-1 c0ffee 0 host\n"),
        std::string("millrace-peer-1 c0ffee 2 host\n"),
        std::string("millrace-peer-1 c0ffee -1 host\n"),
        std::string("millrace-peer-1 c0ffee 1\n"),
        std::string("end everything\n"), std::string("missing 0 x y\n"),
        std::string("\n\n\n"), std::string("\0\xff\n", 3),
        std::string(100000, 'x')}) {
    const int fd = Connect();
    // It may be hung up on in the middle.
    (void)send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    EXPECT_EQ(Line(fd), "") << text.substr(0, 40);
    close(fd);
  }
  EXPECT_FALSE(monitors_[0]->Missing().has_value());
  EXPECT_FALSE(monitors_[1]->Missing().has_value());
  monitors_[1]->End("works still");
  EXPECT_THAT(Says(0), HasSubstr("works still"));
}

// poll() found the listener readable at once, for ever and without a word.
TEST_F(PeerMonitors, WaitForRoomForAConnection) {
  monitors_.clear();
  auto first = PeerMonitor::Listen(OptionsOf(0, 2), true);
  ASSERT_TRUE(first.ok()) << first.status();
  monitors_.push_back(*std::move(first));
  int log[2];
  ASSERT_EQ(pipe(log), 0);
  const int rank = socket(AF_INET, SOCK_STREAM, 0);
  const int stderr_before = dup(STDERR_FILENO);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = dup(rank);
  close(lowest_free);
  const rlimit full = {static_cast<rlim_t>(lowest_free), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &full), 0);
  dup2(log[1], STDERR_FILENO);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(monitors_[0]->port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int connected =
      connect(rank, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  std::string line;
  for (char c = 0; connected == 0 && c != '\n' && read(log[0], &c, 1) == 1;) {
    line += c;
  }
  dup2(stderr_before, STDERR_FILENO);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(connected, 0);
  EXPECT_THAT(line, HasSubstr("cannot accept the connection of another rank: "
                              "Too many open files; "));
  // With room again, the rank is met.
  Send(rank, absl::StrCat("millrace-peer-1 ", kToken, " 1 host-1\n"));
  EXPECT_THAT(Line(rank), HasSubstr("millrace-peer-1 "));
  for (const int fd : {log[0], log[1], rank, stderr_before}) close(fd);
}

TEST_F(PeerMonitors, LoseARankThatTalksNonsense) {
  auto first = PeerMonitor::Listen(OptionsOf(0, 2), true);
  ASSERT_TRUE(first.ok());
  monitors_.push_back(*std::move(first));
  const int fd = Connect();
  Send(fd, "millrace-peer-1 c0ffee 1 evil\x01host\n");
  EXPECT_EQ(Line(fd), "millrace-peer-1 host-0");
  const std::string much(1 << 20, 'y');
  (void)send(fd, much.data(), much.size(), MSG_NOSIGNAL);
  EXPECT_EQ(monitors_[0]->AwaitMissing(kLong)->Sentence(2),
            "rank 1 of 2 on host evil_host is gone: it sent a line that no "
            "rank sends");
  close(fd);
}

TEST(PeerMonitor, SaysWhereRankZeroIsNot) {
  auto first = PeerMonitor::Listen(OptionsOf(0, 2), true);
  ASSERT_TRUE(first.ok());
  const uint16_t port = (*first)->port();
  first->reset();
  const auto answer = PeerMonitor::Connect(OptionsOf(1, 2), "127.0.0.1", port,
                                           absl::Milliseconds(100));
  EXPECT_TRUE(absl::IsUnavailable(answer.status()));
  EXPECT_THAT(std::string(answer.status().message()),
              AllOf(HasSubstr("127.0.0.1:"), HasSubstr("firewall")));
}

TEST(LocalAddress, IsNotTheLoopbackUnlessThereIsNothingElse) {
  const std::string address = LocalAddressTowards("127.0.0.1", 1);
  EXPECT_FALSE(address.starts_with("127.")) << address;
  EXPECT_EQ(LocalAddressTowards("no.such.host.invalid", 1), "");
}

TEST(DifferenceOfRanks, NamesRanksAndTheFirstValue) {
  const std::vector<std::string> names = {"fc1.weight", "fc1.bias", "fc2.bias"};
  EXPECT_EQ(DifferenceOfRanks(names, {{1, 2, 3}, {1, 2, 3}}), "");
  EXPECT_EQ(DifferenceOfRanks(names, {{1, 2, 3}}), "");
  EXPECT_EQ(DifferenceOfRanks(names, {{1, 2, 3}, {1, 9, 8}}),
            "rank 1 of 2 differs from rank 0, first in fc1.bias (2 of 3 values "
            "differ)");
  EXPECT_EQ(
      DifferenceOfRanks(names, {{1, 2, 3}, {1, 2, 4}, {1, 2, 3}, {5, 2, 3}}),
      "ranks 1 and 3 of 4 differ from rank 0, first in fc1.weight (2 of 3 "
      "values differ)");
  std::vector<std::vector<int64_t>> many(20, {1, 2, 4});
  many[0] = {1, 2, 3};
  EXPECT_THAT(DifferenceOfRanks(names, many),
              HasSubstr("ranks 1, 2, 3, 4, 5, 6, 7, 8 and 11 others of 20"));
}

}  // namespace
}  // namespace millrace::ddp
