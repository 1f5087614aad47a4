#include "trainer/ddp/roll_call.h"

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

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kToken[] = "c0ffee";
// As long as a wait may last that is expected to end well.
constexpr absl::Duration kLong = absl::Seconds(60);

RollCall::Options OptionsOf(uint32_t rank, uint32_t world,
                            absl::Duration silence = kLong) {
  return {.rank = rank,
          .world_size = world,
          .host = absl::StrCat("host-", rank),
          .token = kToken,
          .silence = silence};
}

class Rolls : public ::testing::Test {
 protected:
  void Start(uint32_t world, absl::Duration silence = kLong) {
    auto keeper = RollCall::Keep(OptionsOf(0, world, silence), true);
    ASSERT_TRUE(keeper.ok()) << keeper.status();
    rolls_.push_back(*std::move(keeper));
    for (uint32_t rank = 1; rank < world; ++rank) Join(rank, world, silence);
  }
  void Join(uint32_t rank, uint32_t world, absl::Duration silence = kLong) {
    auto one = RollCall::Answer(OptionsOf(rank, world, silence), "127.0.0.1",
                                rolls_[0]->port(), kLong);
    ASSERT_TRUE(one.ok()) << one.status();
    rolls_.push_back(*std::move(one));
  }
  // What that rank says of the one that is missing.
  std::string Says(size_t rank) {
    const auto absence = rolls_[rank]->AwaitMissing(kLong);
    return absence.has_value()
               ? absence->Sentence(static_cast<uint32_t>(rolls_.size()))
               : "nobody is missing";
  }
  // A rank that is only a connection, as a process that can be killed.
  int Connect() {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(rolls_[0]->port());
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

  std::vector<std::unique_ptr<RollCall>> rolls_;
};

TEST_F(Rolls, TellAllRanksWhyOneHasEnded) {
  Start(3);
  rolls_[2]->End("the loss is nan\nat epoch 1");
  for (size_t rank : {0, 1}) {
    EXPECT_EQ(Says(rank),
              "rank 2 of 3 on host host-2 has ended: the loss is nan at epoch "
              "1");
  }
}

TEST_F(Rolls, TellTheOthersWhenRankZeroHasEnded) {
  Start(3);
  rolls_[0]->End("the disk is full");
  for (size_t rank : {1, 2}) {
    EXPECT_EQ(Says(rank),
              "rank 0 of 3 on host host-0 has ended: the disk is full");
  }
}

TEST_F(Rolls, AreQuietWhenAllEndWell) {
  Start(3);
  // The first to go leaves the others at work.
  rolls_[1]->End("");
  rolls_[0]->End("");
  EXPECT_FALSE(rolls_[2]->AwaitMissing(absl::Milliseconds(50)).has_value());
  rolls_[2]->End("");
  for (const auto& roll : rolls_) EXPECT_FALSE(roll->Missing().has_value());
}

TEST_F(Rolls, NameAProcessThatDies) {
  Start(2);
  rolls_.clear();
  auto keeper = RollCall::Keep(OptionsOf(0, 3), true);
  ASSERT_TRUE(keeper.ok());
  rolls_.push_back(*std::move(keeper));
  Join(1, 3);
  const int fd = Connect();
  Send(fd, "millrace-roll-1 c0ffee 2 far-away\n");
  EXPECT_EQ(Line(fd), "millrace-roll-1 host-0");
  close(fd);
  for (size_t rank : {0, 1}) {
    EXPECT_THAT(rolls_[rank]->AwaitMissing(kLong)->Sentence(3),
                AllOf(HasSubstr("rank 2 of 3 on host far-away is gone"),
                      HasSubstr("killed or has crashed")));
  }
}

TEST_F(Rolls, NameAMachineThatIsSilent) {
  auto keeper = RollCall::Keep(OptionsOf(0, 3, absl::Seconds(2)), true);
  ASSERT_TRUE(keeper.ok());
  rolls_.push_back(*std::move(keeper));
  Join(1, 3, absl::Seconds(2));
  // It stays connected and says nothing more.
  const int fd = Connect();
  Send(fd, "millrace-roll-1 c0ffee 2 far-away\n");
  for (size_t rank : {0, 1}) {
    EXPECT_EQ(rolls_[rank]->AwaitMissing(kLong)->Sentence(3),
              "rank 2 of 3 on host far-away is gone: no sign of life for "
              "2s");
  }
  close(fd);
}

TEST_F(Rolls, NameARankThatNeverCame) {
  Start(2);
  rolls_.clear();
  auto keeper = RollCall::Keep(OptionsOf(0, 2, absl::Seconds(2)), true);
  ASSERT_TRUE(keeper.ok());
  EXPECT_THAT((*keeper)->AwaitMissing(kLong)->Sentence(2),
              HasSubstr("rank 1 of 2"));
}

TEST_F(Rolls, GoOnWhileSomebodyIsMissing) {
  std::atomic<int> calls{0};
  RollCall::Options options = OptionsOf(0, 2, absl::Milliseconds(200));
  options.while_missing = [&calls](const RollCall::Absence& absence) {
    EXPECT_EQ(absence.rank, 1u);
    ++calls;
  };
  auto keeper = RollCall::Keep(options, true);
  ASSERT_TRUE(keeper.ok());
  while (calls < 3) std::this_thread::yield();
  (*keeper)->End("");
}

// Anybody may connect to an open port.
TEST_F(Rolls, DoNotListenToStrangers) {
  Start(2);
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\n\r\n"),
        std::string("millrace-roll-1 wrong 1 host\n"),
        std::string("millrace-roll-1 c0ffee 1 host\n"),  // is there already
        std::string("millrace-roll-1 c0ffee 0 host\n"),
        std::string("millrace-roll-1 c0ffee 2 host\n"),
        std::string("millrace-roll-1 c0ffee -1 host\n"),
        std::string("millrace-roll-1 c0ffee 1\n"),
        std::string("end everything\n"), std::string("missing 0 x y\n"),
        std::string("\n\n\n"), std::string("\0\xff\n", 3),
        std::string(100000, 'x')}) {
    const int fd = Connect();
    // It may be hung up on in the middle.
    (void)send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    EXPECT_EQ(Line(fd), "") << text.substr(0, 40);
    close(fd);
  }
  EXPECT_FALSE(rolls_[0]->Missing().has_value());
  EXPECT_FALSE(rolls_[1]->Missing().has_value());
  rolls_[1]->End("works still");
  EXPECT_THAT(Says(0), HasSubstr("works still"));
}

// poll() found the listener readable at once, for ever and without a word.
TEST_F(Rolls, WaitForRoomForAConnection) {
  rolls_.clear();
  auto keeper = RollCall::Keep(OptionsOf(0, 2), true);
  ASSERT_TRUE(keeper.ok()) << keeper.status();
  rolls_.push_back(*std::move(keeper));
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
  address.sin_port = htons(rolls_[0]->port());
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
  Send(rank, absl::StrCat("millrace-roll-1 ", kToken, " 1 host-1\n"));
  EXPECT_THAT(Line(rank), HasSubstr("millrace-roll-1 "));
  for (const int fd : {log[0], log[1], rank, stderr_before}) close(fd);
}

TEST_F(Rolls, LoseARankThatTalksNonsense) {
  auto keeper = RollCall::Keep(OptionsOf(0, 2), true);
  ASSERT_TRUE(keeper.ok());
  rolls_.push_back(*std::move(keeper));
  const int fd = Connect();
  Send(fd, "millrace-roll-1 c0ffee 1 evil\x01host\n");
  EXPECT_EQ(Line(fd), "millrace-roll-1 host-0");
  const std::string much(1 << 20, 'y');
  (void)send(fd, much.data(), much.size(), MSG_NOSIGNAL);
  EXPECT_EQ(rolls_[0]->AwaitMissing(kLong)->Sentence(2),
            "rank 1 of 2 on host evil_host is gone: it said what no rank says");
  close(fd);
}

TEST(RollCall, SaysWhereRankZeroIsNot) {
  auto keeper = RollCall::Keep(OptionsOf(0, 2), true);
  ASSERT_TRUE(keeper.ok());
  const uint16_t port = (*keeper)->port();
  keeper->reset();
  const auto answer = RollCall::Answer(OptionsOf(1, 2), "127.0.0.1", port,
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
}  // namespace millrace
