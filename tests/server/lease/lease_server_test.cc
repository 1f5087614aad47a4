// The server of leases over its socket: when it ends, whom it serves, and what
// clients cannot do to it.

#include "server/lease/lease_server.h"

#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <latch>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/packet_socket.h"
#include "common/thread.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/lease/lease_fixture.h"

namespace millrace::lease {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kZero(1, '\0');

std::string Add(const std::string& uri, const std::string& name = "") {
  return absl::StrJoin(
      std::vector<std::string>{"millrace-lease-1", "add", uri, name}, kZero);
}

// A client. Its destructor ends its lease.
class Client {
 public:
  explicit Client(const std::string& socket) {
    auto connected = ConnectForPackets(socket);
    EXPECT_TRUE(connected.ok()) << connected.status();
    if (connected.ok()) socket_ = *std::move(connected);
  }

  void Send(const std::string& packet, int attached = -1) {
    EXPECT_TRUE(SendPacket(socket_.get(), packet, attached).ok());
  }

  void SendIfPossible(const std::string& packet) {
    SendPacket(socket_.get(), packet).IgnoreError();
  }

  // The same with `count` descriptors.
  void SendWithFiles(const std::string& packet, size_t count) {
    const std::vector<int> files(count, 0);
    std::vector<char> control(CMSG_SPACE(count * sizeof(int)));
    iovec part = {const_cast<char*>(packet.data()), packet.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(header), files.data(), count * sizeof(int));
    EXPECT_EQ(sendmsg(socket_.get(), &message, 0),
              static_cast<ssize_t>(packet.size()));
  }

  // The next packet with '|' for zero bytes; "end": the server has closed.
  std::string Receive() {
    pollfd waits = {socket_.get(), POLLIN, 0};
    EXPECT_EQ(poll(&waits, 1, 30'000), 1) << "no answer";
    std::string packet(2 * kMaxLeasePacketBytes, '\0');
    size_t bytes = 0;
    attached_.Reset();
    if (ReceivePacket(socket_.get(), packet.data(), packet.size(), &bytes,
                      &attached_) != Received::kPacket) {
      return "end";
    }
    packet.resize(bytes);
    for (char& c : packet) {
      if (c == '\0') c = '|';
    }
    return packet;
  }

  std::string Ask(const std::string& packet, int attached = -1) {
    Send(packet, attached);
    return Receive();
  }

  // What came with the last packet.
  const UniqueFd& attached() const { return attached_; }

 private:
  UniqueFd socket_;
  UniqueFd attached_;
};

class LeaseServerTest : public ::testing::Test {
 protected:
  LeaseServerTest() {
    files_.Put("lmdb:/a", "f1");
    files_.Put("lmdb:/b", "f2");
  }
  ~LeaseServerTest() override {
    if (server_ != nullptr) server_->Stop();
  }

  void Start(LeaseServer::Options options = {}) {
    socket_ = absl::StrCat("@millrace-lease-test-", getpid(), "-", ++starts_);
    options.socket = socket_;
    options.address = "127.0.0.1:7";
    options.datasets = files_.options();
    auto server = LeaseServer::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    thread_ = NamedThread("test-leases", [this] { unused_ = server_->Run(); });
  }

  // What Run() has returned.
  bool AwaitEnd() {
    thread_.Join();
    return unused_;
  }

  FakeFiles files_;
  std::string socket_;
  int starts_ = 0;
  bool unused_ = false;  // of the thread, until it is joined
  std::unique_ptr<LeaseServer> server_;
  NamedThread thread_;
};

TEST_F(LeaseServerTest, ItEndsAfterItsLastLeaseAndNotBefore) {
  Start({.linger = absl::Milliseconds(300)});
  auto first = std::make_unique<Client>(socket_);
  EXPECT_EQ(first->Ask(Add("lmdb:/a")),
            "millrace-lease-1|added|127.0.0.1:7|data-f1|f1");
  auto second = std::make_unique<Client>(socket_);
  EXPECT_EQ(second->Ask(Add("lmdb:/b", "b")),
            "millrace-lease-1|added|127.0.0.1:7|b|f2");
  first = nullptr;
  absl::SleepFor(absl::Milliseconds(600));  // longer than it lingers
  EXPECT_EQ(second->Ask(Add("lmdb:/a")),
            "millrace-lease-1|added|127.0.0.1:7|data-f1|f1");
  const absl::Time last = absl::Now();
  second = nullptr;
  EXPECT_TRUE(AwaitEnd());
  EXPECT_GE(absl::Now() - last, absl::Milliseconds(300));
  EXPECT_EQ(ConnectForPackets(socket_).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(LeaseServerTest, WithoutAnyLeaseItEndsToo) {
  Start({.linger = absl::Milliseconds(200)});
  EXPECT_TRUE(AwaitEnd());
}

TEST_F(LeaseServerTest, StopEndsItsLeases) {
  Start();
  Client client(socket_);
  EXPECT_THAT(client.Ask(Add("lmdb:/a")), HasSubstr("|added|"));
  server_->Stop();
  EXPECT_FALSE(AwaitEnd());
  EXPECT_EQ(client.Receive(), "end");
  EXPECT_TRUE(server_->AwaitOpening(absl::ZeroDuration()));
}

TEST_F(LeaseServerTest, AHolderThatEndsReleasesItsDatasets) {
  Start();
  Client other(socket_);
  {
    Client client(socket_);
    client.Ask(Add("lmdb:/a", "x"));
    EXPECT_THAT(other.Ask(Add("lmdb:/b", "x")),
                StartsWith("millrace-lease-1|error|ALREADY_EXISTS|"));
  }
  // The server notices the end before or after the next request.
  std::string answer;
  for (int i = 0; i < 1000 && answer.find("|added|") == answer.npos; ++i) {
    answer = other.Ask(Add("lmdb:/b", "x"));
  }
  EXPECT_EQ(answer, "millrace-lease-1|added|127.0.0.1:7|x|f2");
}

TEST_F(LeaseServerTest, ErrorsHaveTheirCodeAndLeaveTheLease) {
  Start();
  Client client(socket_);
  EXPECT_EQ(client.Ask(Add("lmdb:/none")),
            "millrace-lease-1|error|NOT_FOUND|lmdb:/none: no such file");
  EXPECT_THAT(client.Ask(Add("lmdb:/a")), HasSubstr("|added|"));
}

TEST_F(LeaseServerTest, ArraysComeWithTheirFile) {
  Start();
  Client client(socket_);
  {
    const UniqueFd file = FakeFiles::File("f3");
    EXPECT_EQ(client.Ask(Add("memory:image"), file.get()),
              "millrace-lease-1|added|127.0.0.1:7|data-f3|f3");
    // A file that is none of arrays is an error, and the lease lives.
    const UniqueFd empty = FakeFiles::File("");
    EXPECT_EQ(client.Ask(Add("memory:image"), empty.get()),
              "millrace-lease-1|error|INVALID_ARGUMENT|no arrays");
  }
  EXPECT_EQ(files_.served().size(), 1u);
  EXPECT_THAT(client.Ask(Add("memory:image")),
              HasSubstr("|error|INVALID_ARGUMENT|the request for arrays has no "
                        "file attached"));
  EXPECT_EQ(client.Receive(), "end");
  Client other(socket_);
  const UniqueFd file = FakeFiles::File("f4");
  EXPECT_THAT(other.Ask(Add("lmdb:/a"), file.get()),
              HasSubstr("|error|INVALID_ARGUMENT|the request has a file"));
  EXPECT_EQ(other.Receive(), "end");
  // Closed with their lease, while the server lives.
  Client third(socket_);
  EXPECT_THAT(third.Ask(Add("lmdb:/b")), HasSubstr("|added|"));
  while (files_.served().count("data-f3") != 0) {
    absl::SleepFor(absl::Milliseconds(10));
  }
}

ino_t Inode(const UniqueFd& file) {
  struct stat status = {};
  EXPECT_EQ(fstat(file.get(), &status), 0);
  return status.st_ino;
}

TEST_F(LeaseServerTest, EqualArraysAreAnsweredWithTheFileThatIsServed) {
  Start();
  const std::string added = "millrace-lease-1|added|127.0.0.1:7|data-f3|f3";
  const UniqueFd first = FakeFiles::File("f3");
  const UniqueFd second = FakeFiles::File("f3");
  Client one(socket_), other(socket_);
  EXPECT_EQ(one.Ask(Add("memory:image"), first.get()), added);
  EXPECT_FALSE(one.attached().ok());
  EXPECT_EQ(other.Ask(Add("memory:image"), second.get()), added);
  ASSERT_TRUE(other.attached().ok());
  EXPECT_EQ(Inode(other.attached()), Inode(first));
  // The same file again: the program has it.
  EXPECT_EQ(other.Ask(Add("memory:image"), first.get()), added);
  EXPECT_FALSE(other.attached().ok());
}

TEST_F(LeaseServerTest, SignsOfLifeComeWhileADatasetIsOpened) {
  Start({.sign_interval = absl::Milliseconds(50)});
  files_.Hold("lmdb:/a");
  Client client(socket_);
  EXPECT_EQ(client.Ask(Add("lmdb:/a")), "millrace-lease-1|opening");
  EXPECT_EQ(client.Receive(), "millrace-lease-1|opening");
  // Others do not wait for it.
  Client other(socket_);
  EXPECT_THAT(other.Ask(Add("lmdb:/b")), HasSubstr("|added|"));
  files_.Continue();
  std::string answer = "|opening";
  while (answer.find("|opening") != answer.npos) answer = client.Receive();
  EXPECT_THAT(answer, HasSubstr("|added|"));
}

TEST_F(LeaseServerTest, ADatasetThatIsOpenedForADeadClientIsReleased) {
  Start({.linger = absl::Milliseconds(100)});
  files_.Hold("lmdb:/a");
  {
    Client client(socket_);
    client.Send(Add("lmdb:/a"));
    files_.AwaitOpening(1);
  }
  EXPECT_TRUE(AwaitEnd());
  EXPECT_FALSE(server_->AwaitOpening(absl::Milliseconds(1)));
  files_.Continue();
  EXPECT_TRUE(server_->AwaitOpening(absl::Seconds(30)));
}

TEST_F(LeaseServerTest, ClientsThatBreakTheProtocolAreDisconnected) {
  Start({.greeting_time = absl::Milliseconds(200)});
  for (const std::string& packet :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\0", 1),
        std::string("millrace-lease-2"),
        std::string(3 * kMaxLeasePacketBytes, 'x'), Add("")}) {
    Client client(socket_);
    EXPECT_THAT(client.Ask(packet), HasSubstr("|error|INVALID_ARGUMENT|"));
    EXPECT_EQ(client.Receive(), "end");
  }
  Client silent(socket_);
  EXPECT_EQ(silent.Receive(), "end");
  // Two requests at once.
  files_.Hold("lmdb:/a");
  Client hasty(socket_);
  hasty.Send(Add("lmdb:/a"));
  hasty.Send(Add("lmdb:/b"));
  EXPECT_THAT(hasty.Receive(), HasSubstr("|error|FAILED_PRECONDITION|"));
  EXPECT_EQ(hasty.Receive(), "end");
  files_.Continue();
  Client good(socket_);
  EXPECT_THAT(good.Ask(Add("lmdb:/b")), HasSubstr("|added|"));
}

// Descriptors that nobody asked for are refused and closed, however many there
// are.
TEST_F(LeaseServerTest, DescriptorsThatAreAttachedAreClosed) {
  Start();
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         {});
  };
  const auto before = open_files();
  for (const size_t count : {1, 8, 9, 200}) {
    {
      Client client(socket_);
      client.SendWithFiles(Add("lmdb:/a"), count);
      EXPECT_THAT(client.Receive(), HasSubstr("has a file attached")) << count;
    }
    // The server notices the end of the connection a little later.
    for (int i = 0; i < 3000 && open_files() != before; ++i) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    EXPECT_EQ(open_files(), before) << count;
  }
  Client client(socket_);
  EXPECT_THAT(client.Ask(Add("lmdb:/a")), HasSubstr("|added|"));
}

// The server never waits for one connection: a thousand that say nothing, and
// one that reads nothing, keep nobody from a lease.
TEST_F(LeaseServerTest, ManyConnectionsDisturbNoOther) {
  constexpr int kConnections = 2000;
  struct rlimit files;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_max < 2 * kConnections + 100) GTEST_SKIP() << "few files";
  Start({.max_leases = 1000});
  Client good(socket_);
  EXPECT_THAT(good.Ask(Add("lmdb:/a")), HasSubstr("|added|"));
  Client deaf(socket_);
  deaf.Send(Add("lmdb:/a"));
  std::vector<UniqueFd> silent;
  while (silent.size() < kConnections) {
    auto connected = ConnectForPackets(socket_);
    if (connected.ok()) {
      silent.push_back(*std::move(connected));
    } else {
      // More connect at this moment than the system lets wait.
      ASSERT_EQ(connected.status().code(), absl::StatusCode::kResourceExhausted)
          << connected.status();
      sched_yield();
    }
  }
  EXPECT_THAT(good.Ask(Add("lmdb:/b")), HasSubstr("|added|"));
  // The last one was told why.
  Client last(socket_);
  EXPECT_THAT(last.Receive(), HasSubstr("|error|RESOURCE_EXHAUSTED|"));
  silent.clear();
  // Their places are free when the server has seen their end.
  std::string answer;
  for (int i = 0; i < 1000 && answer.find("|added|") == answer.npos; ++i) {
    Client next(socket_);
    next.SendIfPossible(Add("lmdb:/a"));
    answer = next.Receive();
  }
  EXPECT_THAT(answer, HasSubstr("|added|"));
}

// Programs that start servers at the same time, after one was killed: one of
// the servers listens. Two once did, and the file led to only one of them.
TEST(LeaseServerFileTest, OfServersThatStartTogetherOneListens) {
  FakeFiles files;
  const std::string folder = absl::StrCat("/tmp/lease-together-", getpid());
  std::filesystem::create_directory(folder);
  const std::string path = folder + "/socket";
  for (int round = 0; round < 200; ++round) {
    // What a killed server leaves behind.
    ASSERT_TRUE(ListenForPackets(path).ok());
    std::vector<std::unique_ptr<LeaseServer>> servers(8);
    {
      std::latch together(static_cast<ptrdiff_t>(servers.size()));
      std::vector<NamedThread> threads;
      for (std::unique_ptr<LeaseServer>& server : servers) {
        threads.emplace_back("test-start", [&] {
          together.arrive_and_wait();
          auto started =
              LeaseServer::Start({.socket = path, .datasets = files.options()});
          if (started.ok()) server = *std::move(started);
        });
      }
    }
    EXPECT_EQ(std::count(servers.begin(), servers.end(), nullptr), 7)
        << "round " << round;
  }
  std::filesystem::remove_all(folder);
}

// The file of another is not replaced, and the message says what to do.
TEST(LeaseServerFileTest, APathThatIsTakenIsRefused) {
  FakeFiles files;
  const std::string folder = absl::StrCat("/tmp/lease-taken-", getpid());
  std::filesystem::create_directory(folder);
  const std::string file = folder + "/file", link = folder + "/link",
                    live = folder + "/live";
  std::ofstream(file) << "content";
  std::filesystem::create_symlink("nothing", link);
  const auto listens = ListenForPackets(live);
  ASSERT_TRUE(listens.ok()) << listens.status();
  for (const std::string& path : {file, link, folder, live}) {
    const absl::Status status =
        LeaseServer::Start({.socket = path, .datasets = files.options()})
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(path), HasSubstr("use another path")));
  }
  EXPECT_EQ(std::filesystem::file_size(file), 7);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_FALSE(std::filesystem::exists(folder + "/nothing"));
  EXPECT_TRUE(ConnectForPackets(live).ok());
  EXPECT_THAT(std::string(LeaseServer::Start({.socket = folder + "/none/socket",
                                              .datasets = files.options()})
                              .status()
                              .message()),
              HasSubstr("make the folder of the path first"));
  std::filesystem::remove_all(folder);
}

TEST_F(LeaseServerTest, LimitsOfLeasesAndOfDatasetsOfOne) {
  Start({.max_leases = 2, .max_datasets_each = 1});
  Client first(socket_);
  EXPECT_THAT(first.Ask(Add("lmdb:/a")), HasSubstr("|added|"));
  EXPECT_THAT(first.Ask(Add("lmdb:/b")),
              HasSubstr("|error|RESOURCE_EXHAUSTED|"));
  Client second(socket_);
  EXPECT_THAT(second.Ask(Add("lmdb:/b")), HasSubstr("|added|"));
  Client third(socket_);
  EXPECT_THAT(third.Receive(), HasSubstr("|error|RESOURCE_EXHAUSTED|"));
  EXPECT_EQ(third.Receive(), "end");
}

TEST_F(LeaseServerTest, OtherUsersAreRefused) {
  Start();
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() != 0 || setuid(65534) != 0) _exit(77);
    auto connected = ConnectForPackets(socket_);
    if (!connected.ok()) _exit(4);
    pollfd waits = {connected->get(), POLLIN, 0};
    poll(&waits, 1, 30'000);
    char packet[1000] = {};
    size_t bytes = 0;
    UniqueFd attached;
    if (ReceivePacket(connected->get(), packet, sizeof(packet), &bytes,
                      &attached) != Received::kPacket) {
      _exit(5);
    }
    const std::string text(packet, bytes);
    _exit(text.find("PERMISSION_DENIED") == text.npos ? 6 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs root";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(LeaseServerFileTest, ItRemovesItsOwnSocketFileAlone) {
  FakeFiles files;
  const std::string path = absl::StrCat("/tmp/lease-test-", getpid());
  unlink(path.c_str());
  const auto start = [&] {
    auto server = LeaseServer::Start({.socket = path,
                                      .address = "127.0.0.1:7",
                                      .datasets = files.options(),
                                      .linger = absl::ZeroDuration()});
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  };
  auto first = start();
  EXPECT_EQ(LeaseServer::Start({.socket = path, .datasets = files.options()})
                .status()
                .code(),
            absl::StatusCode::kAlreadyExists);
  unlink(path.c_str());  // by something that tidies up
  auto second = start();
  EXPECT_TRUE(first->Run());
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
  EXPECT_TRUE(second->Run());
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace millrace::lease
