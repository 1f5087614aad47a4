// Memory shared between real processes: killing either side leaves nothing
// behind, and where it cannot be shared batches come over the network.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/digest.h"
#include "client/prefetch/host_loader.h"
#include "client/receive/describe.h"
#include "tests/testing/digits.h"
#include "tests/testing/server_process.h"
#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using ::millrace::testing::NewTempDir;
using ::millrace::testing::ServerProcess;
using ::millrace::testing::Subprocess;

constexpr int kSamples = 20'000;
constexpr uint64_t kBatch = 50;
constexpr uint64_t kSteps = kSamples / kBatch;

class SameHostProcessTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string uri = "lmdb:" + NewTempDir() + "/digits.lmdb";
    ASSERT_TRUE(testing::WriteDigits(uri, kSamples).ok());
    flag_ = new std::string("--dataset=digits=" + uri);
  }
  static void TearDownTestSuite() { delete flag_; }

  static std::unique_ptr<ServerProcess> Serve(
      const std::vector<std::string>& more = {}, int port = 0) {
    std::vector<std::string> flags = {*flag_, "--threads=2",
                                      "--memory_budget=256MiB"};
    flags.insert(flags.end(), more.begin(), more.end());
    auto server = ServerProcess::Start(flags, port);
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }

  static HostLoaderOptions Options(const std::string& endpoint,
                                   SameHost same_host) {
    HostLoaderOptions options;
    options.endpoint = endpoint;
    options.spec.set_preset("mnist");
    options.spec.add_sources()->set_dataset("digits");
    options.spec.set_batch_size(kBatch);
    options.spec.set_seed(11);
    options.window = 16;
    options.same_host = same_host;
    options.read_only_payload = true;
    return options;
  }

  // Receives an epoch and calls `disturb` at the half of it.
  static EpochAudit Receive(HostLoader& loader,
                            const std::function<void()>& disturb) {
    EpochAudit audit;
    for (uint64_t step = 0; step < kSteps; ++step) {
      if (step == kSteps / 2) disturb();
      absl::StatusOr<HostBatch> batch = loader.Next();
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (!batch.ok()) return audit;
      EXPECT_EQ(batch->position, (Position{0, step}));
      EXPECT_TRUE(audit.Add(batch->header, batch->payload).ok());
    }
    return audit;
  }

  static EpochAudit OverTheNetwork() {
    const std::unique_ptr<ServerProcess> server = Serve();
    auto loader = OpenHostLoader(Options(server->address(), SameHost::kOff));
    EXPECT_TRUE(loader.ok()) << loader.status();
    return Receive(**loader, [] {});
  }

  static void ExpectSame(const EpochAudit& audit, const EpochAudit& expected) {
    EXPECT_EQ(audit.samples(), kSamples);
    EXPECT_EQ(audit.distinct(), kSamples);
    EXPECT_EQ(audit.order_digest(), expected.order_digest());
    EXPECT_EQ(audit.content_digest(), expected.content_digest());
  }

  static GetStatusResponse Status(const ServerProcess& server) {
    auto servers = GetServerStatus(server.address());
    EXPECT_TRUE(servers.ok() && servers->front().status.ok());
    return *servers->front().status;
  }

  static std::string* flag_;
};

std::string* SameHostProcessTest::flag_ = nullptr;

// Shared memory that a process could leave behind.
std::set<std::string> LeftFiles() {
  std::set<std::string> files;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/dev/shm", error)) {
    const std::string path = entry.path();
    if (absl::StrContains(path, "millrace")) files.insert(path);
  }
  return files;
}

bool Soon(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return false;
}

TEST_F(SameHostProcessTest, TheSameEpochAsOverTheNetwork) {
  const std::set<std::string> before = LeftFiles();
  std::unique_ptr<ServerProcess> server = Serve();
  {
    auto loader = OpenHostLoader(Options(server->address(), SameHost::kAuto));
    ASSERT_TRUE(loader.ok()) << loader.status();
    const EpochAudit audit = Receive(**loader, [] {});
    EXPECT_GT(Status(*server).same_host_batches_sent(), kSteps / 2);
    ExpectSame(audit, OverTheNetwork());
  }
  server->process().Signal(SIGKILL);
  server->process().Wait();
  EXPECT_EQ(LeftFiles(), before);
}

TEST_F(SameHostProcessTest, AKilledServerLosesNothing) {
  std::unique_ptr<ServerProcess> first = Serve();
  std::unique_ptr<ServerProcess> second = Serve();
  auto loader = OpenHostLoader(Options(
      absl::StrCat(first->address(), ",", second->address()), SameHost::kAuto));
  ASSERT_TRUE(loader.ok()) << loader.status();
  const EpochAudit audit = Receive(**loader, [&] {
    EXPECT_GT(Status(*first).same_host_batches_sent(), 0);
    first->process().Signal(SIGKILL);
    first->process().Wait();
  });
  ExpectSame(audit, OverTheNetwork());
}

TEST_F(SameHostProcessTest, AKilledClientGivesAllBack) {
  const std::unique_ptr<ServerProcess> server = Serve();
  const uint64_t idle = Status(*server).memory_used_bytes();
  // The program itself: it receives until it is killed.
  Subprocess client({testing::ProgramPath("client/cli/millrace"), "bench",
                     "--endpoint=" + server->address(), "--dataset=digits",
                     "--preset=mnist", "--batch_size=50",
                     "--batches=1000000000", "--same_host=require"});
  ASSERT_TRUE(Soon([&] {
    return Status(*server).same_host_batches_sent() > 1000;
  })) << client.Stderr();
  EXPECT_EQ(Status(*server).same_host_links(), 1);
  EXPECT_GT(Status(*server).same_host_bytes(), 0);
  client.Signal(SIGKILL);
  client.Wait();
  EXPECT_TRUE(Soon([&] {
    const GetStatusResponse status = Status(*server);
    return status.same_host_links() == 0 && status.same_host_bytes() == 0 &&
           status.memory_used_bytes() == idle;
  }));
}

TEST_F(SameHostProcessTest, ContainersShareASocketWithAPath) {
  std::string folder = "/tmp/millrace.XXXXXX";  // Bazel's are too long
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/server.sock";
  std::unique_ptr<ServerProcess> server = Serve({"--local_socket=" + path});
  {
    auto loader =
        OpenHostLoader(Options(server->address(), SameHost::kRequire));
    ASSERT_TRUE(loader.ok());
    for (int i = 0; i < 200; ++i) ASSERT_TRUE((*loader)->Next().ok());
    EXPECT_GT(Status(*server).same_host_batches_sent(), 0);
  }
  // What a killed server leaves, the next one replaces, and takes with it.
  server->process().Signal(SIGKILL);
  server->process().Wait();
  server = Serve({"--local_socket=" + path});
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(server->Stop(), 0);
  EXPECT_FALSE(std::filesystem::exists(path));
  std::filesystem::remove_all(folder);
}

TEST_F(SameHostProcessTest, AServerThatSharesNothingIsUsedOverTheNetwork) {
  const std::unique_ptr<ServerProcess> server = Serve({"--local_socket=off"});
  auto loader = OpenHostLoader(Options(server->address(), SameHost::kAuto));
  ASSERT_TRUE(loader.ok());
  for (int i = 0; i < 50; ++i) ASSERT_TRUE((*loader)->Next().ok());
  EXPECT_EQ(Status(*server).same_host_links(), 0);
}

}  // namespace
}  // namespace millrace
