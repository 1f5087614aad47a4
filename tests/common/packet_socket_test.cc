#include "common/packet_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace millrace {
namespace {

// A folder for sockets, whose paths must be short: Bazel's are not.
class Folder {
 public:
  Folder() { EXPECT_NE(mkdtemp(name_.data()), nullptr); }
  ~Folder() { std::filesystem::remove_all(name_); }
  std::string File(const std::string& name) const {
    return absl::StrCat(name_, "/", name);
  }

 private:
  std::string name_ = "/tmp/millrace.XXXXXX";
};

std::string AbstractName() {
  return absl::StrCat("@millrace-test-", getpid(), "-", rand());
}

struct Pair {
  UniqueFd listener, client, server;
};

Pair Connected(const std::string& name) {
  Pair pair;
  auto listener = ListenForPackets(name);
  EXPECT_TRUE(listener.ok()) << listener.status();
  pair.listener = *std::move(listener);
  auto client = ConnectForPackets(name);
  EXPECT_TRUE(client.ok()) << client.status();
  pair.client = *std::move(client);
  auto server = AcceptPackets(pair.listener.get());
  EXPECT_TRUE(server.ok()) << server.status();
  pair.server = *std::move(server);
  return pair;
}

TEST(PacketSocketTest, KeepsTheBordersOfMessages) {
  const Pair pair = Connected(AbstractName());
  ASSERT_TRUE(SendPacket(pair.client.get(), "one").ok());
  ASSERT_TRUE(SendPacket(pair.client.get(), "three").ok());
  char buffer[16];
  size_t bytes = 0;
  UniqueFd attached;
  ASSERT_EQ(ReceivePacket(pair.server.get(), buffer, sizeof(buffer), &bytes,
                          &attached),
            Received::kPacket);
  EXPECT_EQ(std::string(buffer, bytes), "one");
  EXPECT_FALSE(attached.ok());
  ASSERT_EQ(ReceivePacket(pair.server.get(), buffer, sizeof(buffer), &bytes,
                          &attached),
            Received::kPacket);
  EXPECT_EQ(std::string(buffer, bytes), "three");
  EXPECT_EQ(ReceivePacket(pair.server.get(), buffer, sizeof(buffer), &bytes,
                          &attached),
            Received::kNothing);
}

TEST(PacketSocketTest, CarriesADescriptor) {
  const Pair pair = Connected(AbstractName());
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  UniqueFd out(pipe_fds[0]);
  {
    UniqueFd in(pipe_fds[1]);
    ASSERT_TRUE(SendPacket(pair.server.get(), "pipe", in.get()).ok());
  }
  char buffer[16];
  size_t bytes = 0;
  UniqueFd attached;
  ASSERT_EQ(ReceivePacket(pair.client.get(), buffer, sizeof(buffer), &bytes,
                          &attached),
            Received::kPacket);
  ASSERT_TRUE(attached.ok());
  EXPECT_NE(fcntl(attached.get(), F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_EQ(write(attached.get(), "x", 1), 1);
  EXPECT_EQ(read(out.get(), buffer, sizeof(buffer)), 1);
}

TEST(PacketSocketTest, HearsWhatWasSentBeforeTheEnd) {
  Pair pair = Connected(AbstractName());
  ASSERT_TRUE(SendPacket(pair.client.get(), "last").ok());
  pair.client.Reset();
  char buffer[16];
  size_t bytes = 0;
  UniqueFd attached;
  EXPECT_EQ(ReceivePacket(pair.server.get(), buffer, sizeof(buffer), &bytes,
                          &attached),
            Received::kPacket);
  EXPECT_EQ(ReceivePacket(pair.server.get(), buffer, sizeof(buffer), &bytes,
                          &attached),
            Received::kEnd);
  EXPECT_TRUE(absl::IsUnavailable(SendPacket(pair.server.get(), "more")));
}

TEST(PacketSocketTest, ASenderThatNobodyReadsIsToldSo) {
  const Pair pair = Connected(AbstractName());
  absl::Status status;
  for (int i = 0; i < 1'000'000 && status.ok(); ++i) {
    status = SendPacket(pair.client.get(), "packet");
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST(PacketSocketTest, SaysWhoConnects) {
  const Pair pair = Connected(AbstractName());
  const auto user = PeerUser(pair.server.get());
  ASSERT_TRUE(user.ok()) << user.status();
  EXPECT_EQ(*user, geteuid());
}

TEST(PacketSocketTest, NobodyThere) {
  const auto abstract = ConnectForPackets(AbstractName());
  EXPECT_TRUE(absl::IsUnavailable(abstract.status())) << abstract.status();
  const auto path = ConnectForPackets(Folder().File("none"));
  EXPECT_TRUE(absl::IsUnavailable(path.status())) << path.status();
}

TEST(PacketSocketTest, NothingToAcceptIsNotNoDescriptorToAcceptWith) {
  const std::string name = AbstractName();
  const auto listener = ListenForPackets(name);
  ASSERT_TRUE(listener.ok());
  EXPECT_TRUE(absl::IsUnavailable(AcceptPackets(listener->get()).status()));
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // The client gets the last one.
  UniqueFd next(dup(0));
  ASSERT_TRUE(next.ok());
  rlimit limit = before;
  limit.rlim_cur = next.get() + 1;
  next.Reset();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const auto client = ConnectForPackets(name);
  const auto accepted = AcceptPackets(listener->get());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE(absl::IsResourceExhausted(accepted.status()))
      << accepted.status();
  EXPECT_TRUE(AcceptPackets(listener->get()).ok());
}

// What makes a client of another container take the network.
TEST(PacketSocketTest, AnAbstractNameIsOfOneNetworkNamespace) {
  constexpr int kNotAllowed = 77;
  const std::string name = AbstractName();
  const auto listener = ListenForPackets(name);
  ASSERT_TRUE(listener.ok());
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNET) != 0 &&
        unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
      _exit(kNotAllowed);
    }
    _exit(absl::IsUnavailable(ConnectForPackets(name).status()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotAllowed) {
    GTEST_SKIP() << "this machine allows no network namespaces";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(ConnectForPackets(name).ok());
}

TEST(PacketSocketTest, AFileThatAKilledServerLeftIsReplaced) {
  const Folder folder;
  const std::string path = folder.File("socket");
  { const auto killed = ListenForPackets(path); }
  struct stat status = {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0666);  // the folder says who may come
  const auto next = ListenForPackets(path);
  EXPECT_TRUE(next.ok()) << next.status();
  EXPECT_TRUE(ConnectForPackets(path).ok());
}

TEST(PacketSocketTest, ARunningServerIsNotReplaced) {
  const Folder folder;
  const std::string path = folder.File("socket");
  const auto first = ListenForPackets(path);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(absl::IsAlreadyExists(ListenForPackets(path).status()));
  EXPECT_TRUE(ConnectForPackets(path).ok());
}

// A server that is stopped for a moment, or that many clients come to at once.
TEST(PacketSocketTest, AServerThatDoesNotAcceptIsNotReplaced) {
  const Folder folder;
  const std::string path = folder.File("socket");
  const auto first = ListenForPackets(path);
  ASSERT_TRUE(first.ok());
  std::vector<UniqueFd> waiting;
  absl::Status full;
  while (full.ok() && waiting.size() < 1000) {
    auto client = ConnectForPackets(path);
    full = client.status();
    if (full.ok()) waiting.push_back(*std::move(client));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_TRUE(absl::IsAlreadyExists(ListenForPackets(path).status()));
  // It is the first one's clients that come here still.
  EXPECT_TRUE(AcceptPackets(first->get()).ok());
  EXPECT_TRUE(ConnectForPackets(path).ok());
}

TEST(PacketSocketTest, AFileOfSomethingElseIsNotReplaced) {
  const Folder folder;
  const std::string path = folder.File("file");
  UniqueFd file(open(path.c_str(), O_CREAT | O_WRONLY, 0600));
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(absl::IsAlreadyExists(ListenForPackets(path).status()));
  struct stat status = {};
  EXPECT_EQ(stat(path.c_str(), &status), 0);
}

TEST(PacketSocketTest, NamesThatCannotBe) {
  EXPECT_TRUE(absl::IsInvalidArgument(ListenForPackets("").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ListenForPackets("@").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      ConnectForPackets(std::string(200, 'x')).status()));
}

}  // namespace
}  // namespace millrace
