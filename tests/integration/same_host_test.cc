// Memory shared between real processes: killing either side leaves nothing
// behind, and where it cannot be shared batches come over the network.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "client/prefetch/host_loader.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using ::millrace::testing::ServerProcess;
using ::millrace::testing::Subprocess;

constexpr int kSamples = 20'000;
constexpr uint64_t kBatch = 50;
constexpr uint64_t kSteps = kSamples / kBatch;

class SameHostProcessTest : public testing::ServiceTest {
 protected:
  static std::unique_ptr<ServerProcess> Serve(
      const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {Digits(kSamples), "--threads=2",
                                      "--memory_budget=256MiB"};
    flags.insert(flags.end(), more.begin(), more.end());
    return ServiceTest::Serve(flags);
  }

  static HostLoaderOptions Options(const std::string& endpoint,
                                   SameHost same_host) {
    HostLoaderOptions options = ServiceTest::Options(endpoint, kBatch);
    options.verify_payload = false;
    options.same_host = same_host;
    options.read_only_payload = true;
    return options;
  }

  static void ExpectAsOverTheNetwork(const cli::EpochAudit& audit) {
    const std::unique_ptr<ServerProcess> server = Serve();
    const auto loader = Open(Options(server->address(), SameHost::kOff));
    ExpectSameEpoch(audit, ReceiveEpoch(*loader, kSteps), kSamples);
  }
};

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

TEST_F(SameHostProcessTest, TheSameEpochAsOverTheNetwork) {
  const std::set<std::string> before = LeftFiles();
  std::unique_ptr<ServerProcess> server = Serve();
  {
    const auto loader = Open(Options(server->address(), SameHost::kAuto));
    const cli::EpochAudit audit = ReceiveEpoch(*loader, kSteps);
    EXPECT_GT(StatusOf(*server).same_host_batches_sent(), kSteps / 2);
    ExpectAsOverTheNetwork(audit);
  }
  Kill(*server);
  EXPECT_EQ(LeftFiles(), before);
}

TEST_F(SameHostProcessTest, AKilledServerLosesNothing) {
  std::unique_ptr<ServerProcess> first = Serve();
  std::unique_ptr<ServerProcess> second = Serve();
  const auto loader =
      Open(Options(EndpointOf(*first, *second), SameHost::kAuto));
  const cli::EpochAudit audit = ReceiveEpoch(*loader, kSteps, [&] {
    EXPECT_GT(StatusOf(*first).same_host_batches_sent(), 0);
    Kill(*first);
  });
  ExpectAsOverTheNetwork(audit);
}

TEST_F(SameHostProcessTest, AKilledClientGivesAllBack) {
  const std::unique_ptr<ServerProcess> server = Serve();
  const uint64_t idle = StatusOf(*server).memory_used_bytes();
  // The program itself: it receives until it is killed.
  Subprocess client({testing::ProgramPath("client/cli/millrace"), "bench",
                     "--endpoint=" + server->address(), "--dataset=digits",
                     "--preset=mnist", "--batch_size=50",
                     "--batches=1000000000", "--same_host=require"});
  ASSERT_TRUE(Soon([&] {
    return StatusOf(*server).same_host_batches_sent() > 1000;
  })) << client.Stderr();
  EXPECT_EQ(StatusOf(*server).same_host_links(), 1);
  EXPECT_GT(StatusOf(*server).same_host_bytes(), 0);
  client.Signal(SIGKILL);
  client.Wait();
  EXPECT_TRUE(Soon([&] {
    const GetStatusResponse status = StatusOf(*server);
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
    const auto loader = Open(Options(server->address(), SameHost::kRequire));
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(loader->Next().ok());
    EXPECT_GT(StatusOf(*server).same_host_batches_sent(), 0);
  }
  // What a killed server leaves, the next one replaces, and takes with it.
  Kill(*server);
  server = Serve({"--local_socket=" + path});
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(server->Stop(), 0);
  EXPECT_FALSE(std::filesystem::exists(path));
  std::filesystem::remove_all(folder);
}

TEST_F(SameHostProcessTest, AServerThatSharesNothingIsUsedOverTheNetwork) {
  const std::unique_ptr<ServerProcess> server = Serve({"--local_socket=off"});
  const auto loader = Open(Options(server->address(), SameHost::kAuto));
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(loader->Next().ok());
  EXPECT_EQ(StatusOf(*server).same_host_links(), 0);
}

}  // namespace
}  // namespace millrace
