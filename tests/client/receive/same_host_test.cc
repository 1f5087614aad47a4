// Loaders that share memory with servers in the same process: what arrives is
// the same as over the network, and when it cannot be shared it comes over the
// network.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <deque>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/prefetch/host_loader.h"
#include "client/receive/open_host_loader.h"
#include "client/receive/server_queries.h"
#include "common/byte_budget.h"
#include "server/rpc/rpc_server.h"
#include "tests/testing/fake_engine.h"

namespace millrace::receive {
namespace {

using ::millrace::testing::FakeEngine;
using ::millrace::testing::FirstWrongByte;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kPayload = 300'000;

class TestServer {
 public:
  explicit TestServer(std::optional<std::string> local_socket = "",
                      uint64_t budget_bytes = 64 << 20, int port = 0)
      : budget_(budget_bytes) {
    FakeEngine::Config config;
    config.budget = &budget_;
    config.payload_bytes = kPayload;
    engine_ = std::make_unique<FakeEngine>(config);
    rpc::RpcServer::Options options;
    options.listen = absl::StrCat("127.0.0.1:", port);
    options.engine = engine_.get();
    options.budget = &budget_;
    options.shutdown_grace = absl::ZeroDuration();
    options.local_socket = std::move(local_socket);
    auto server = rpc::RpcServer::Start(options);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  int port() const { return server_->port(); }
  std::string address() const { return absl::StrCat("127.0.0.1:", port()); }
  ByteBudget& budget() { return budget_; }
  void Stop() { server_.reset(); }

  GetStatusResponse Status() const {
    auto servers = GetServerStatus(address());
    EXPECT_TRUE(servers.ok() && servers->size() == 1 &&
                servers->front().status.ok());
    return *servers->front().status;
  }

 private:
  ByteBudget budget_;
  std::unique_ptr<FakeEngine> engine_;
  std::unique_ptr<rpc::RpcServer> server_;
};

HostLoaderOptions Options(const std::string& endpoint, SameHost same_host) {
  HostLoaderOptions options;
  options.endpoint = endpoint;
  options.spec.add_sources()->set_dataset("d");
  options.window = 8;
  options.same_host = same_host;
  options.verify_payload = false;
  return options;
}

void ExpectBytes(const HostBatch& batch) {
  ASSERT_EQ(batch.payload.size(), kPayload);
  ASSERT_EQ(FirstWrongByte(batch.payload.data(), kPayload, batch.position.epoch,
                           batch.position.step, 0),
            kPayload)
      << "step " << batch.position.step;
}

// Takes `count` batches and checks them.
void Receive(HostLoader& loader, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t step = loader.position().step;
    absl::StatusOr<HostBatch> batch = loader.Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    ASSERT_EQ(batch->position.step, step);
    EXPECT_FALSE(batch->header.has_shared());
    ExpectBytes(*batch);
  }
}

// Soon.
void ExpectUnused(const ByteBudget& budget) {
  for (int i = 0; i < 10'000 && budget.used() > 0; ++i) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(budget.used(), 0);
}

// The permissions of the mapping at `data`, as "r--s".
std::string Permissions(const void* data) {
  std::ifstream maps("/proc/self/maps");
  const auto address = reinterpret_cast<uint64_t>(data);
  std::string line;
  while (std::getline(maps, line)) {
    uint64_t begin = 0, end = 0;
    char permissions[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s", &begin, &end,
                    permissions) == 3 &&
        begin <= address && address < end) {
      return permissions;
    }
  }
  return "";
}

// Receives until a batch lies in shared memory, which the second call is the
// first to offer.
absl::StatusOr<HostBatch> NextShared(HostLoader& loader) {
  for (int i = 0; i < 2000; ++i) {
    absl::StatusOr<HostBatch> batch = loader.Next();
    if (!batch.ok() || Permissions(batch->payload.data()) == "r--s") {
      return batch;
    }
  }
  return absl::NotFoundError("none of 2000 batches was in shared memory");
}

TEST(SameHostTest, BatchesAreReadWhereTheServerWroteThem) {
  TestServer server;
  HostLoaderOptions options = Options(server.address(), SameHost::kAuto);
  options.read_only_payload = true;
  auto loader = OpenHostLoader(options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  auto batch = NextShared(**loader);
  ASSERT_TRUE(batch.ok()) << batch.status();
  ExpectBytes(*batch);
  Receive(**loader, 200);
  EXPECT_GT(server.Status().same_host_batches_sent(), 200);
  EXPECT_EQ(server.Status().same_host_links(), 1);
  ExpectBytes(*batch);  // still: it was held all the time
}

TEST(SameHostTest, AConsumerThatWritesGetsACopy) {
  TestServer server;
  auto loader = OpenHostLoader(Options(server.address(), SameHost::kAuto));
  ASSERT_TRUE(loader.ok()) << loader.status();
  Receive(**loader, 100);
  EXPECT_GT(server.Status().same_host_batches_sent(), 50);
  auto batch = (*loader)->Next();
  ASSERT_TRUE(batch.ok());
  for (uint8_t& byte : batch->payload) byte = 1;
  Receive(**loader, 50);
}

TEST(SameHostTest, NothingIsSharedUnlessTheClientAsks) {
  TestServer server;
  auto loader = OpenHostLoader(Options(server.address(), SameHost::kOff));
  ASSERT_TRUE(loader.ok());
  Receive(**loader, 50);
  EXPECT_EQ(server.Status().same_host_links(), 0);
  EXPECT_EQ(server.Status().same_host_batches_sent(), 0);
}

TEST(SameHostTest, MemoryComesBackWithTheLoader) {
  TestServer server;
  HostLoaderOptions options = Options(server.address(), SameHost::kAuto);
  options.read_only_payload = true;
  auto loader = OpenHostLoader(options);
  ASSERT_TRUE(loader.ok());
  auto held = NextShared(**loader);
  ASSERT_TRUE(held.ok()) << held.status();
  loader->reset();
  EXPECT_GT(server.budget().used(), 0);
  ExpectBytes(*held);
  held->lease.reset();
  ExpectUnused(server.budget());
}

TEST(SameHostTest, FallsBackToTheNetworkAndSaysSoOnce) {
  TestServer server(std::nullopt);
  ::testing::internal::CaptureStderr();
  {
    auto loader = OpenHostLoader(Options(server.address(), SameHost::kAuto));
    ASSERT_TRUE(loader.ok());
    Receive(**loader, 100);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  const size_t first = log.find("no shared memory with server");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("no shared memory with server", first + 1),
            std::string::npos)
      << log;
}

TEST(SameHostTest, WhatIsRequiredAndCannotBeIsAnError) {
  TestServer server(std::nullopt);
  auto loader = OpenHostLoader(Options(server.address(), SameHost::kRequire));
  ASSERT_TRUE(loader.ok());
  absl::Status status;
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 100 && status.ok(); ++i) {
    status = (*loader)->Next().status();
  }
  // It said so of batches that it then refused.
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              Not(HasSubstr("its batches come over the network")));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("same_host requires shared memory, but this server cannot "
                "share it: the server does not offer shared memory"));
}

TEST(SameHostTest, WhatIsRequiredAndCanBeIsNone) {
  TestServer server;
  auto loader = OpenHostLoader(Options(server.address(), SameHost::kRequire));
  ASSERT_TRUE(loader.ok());
  Receive(**loader, 100);
  EXPECT_GT(server.Status().same_host_batches_sent(), 50);
}

TEST(SameHostTest, AConsumerThatHoldsItsWindowStopsNobody) {
  // Room for ten batches, of which five may be shared.
  TestServer server("", 10 * kPayload);
  HostLoaderOptions options = Options(server.address(), SameHost::kAuto);
  options.read_only_payload = true;
  auto loader = OpenHostLoader(options);
  ASSERT_TRUE(loader.ok());
  std::deque<HostBatch> held;
  for (int i = 0; i < 300; ++i) {
    auto batch = (*loader)->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    held.push_back(*std::move(batch));
    if (held.size() == 7) {
      ExpectBytes(held.front());
      held.pop_front();
    }
  }
  // Another client has its share meanwhile, over the network.
  auto other = OpenHostLoader(Options(server.address(), SameHost::kOff));
  ASSERT_TRUE(other.ok());
  Receive(**other, 50);
  for (const HostBatch& batch : held) ExpectBytes(batch);
}

TEST(SameHostTest, AServerThatComesBackSharesAgain) {
  auto server = std::make_unique<TestServer>();
  const int port = server->port();
  HostLoaderOptions options = Options(server->address(), SameHost::kAuto);
  options.read_only_payload = true;
  auto loader = OpenHostLoader(options);
  ASSERT_TRUE(loader.ok());
  auto held = NextShared(**loader);
  ASSERT_TRUE(held.ok()) << held.status();
  server->Stop();
  // What the engine still fills comes back from there.
  ExpectUnused(server->budget());
  server = nullptr;
  TestServer next("", 64 << 20, port);
  // What was whole before the end may come first.
  Receive(**loader, 20);
  auto again = NextShared(**loader);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_GT(next.Status().same_host_links(), 0);
  ExpectBytes(*again);
  ExpectBytes(*held);
}

TEST(SameHostTest, AServerOfAnotherPlaceIsUsedOverTheNetwork) {
  // Its socket is gone, as one in another network namespace is from here.
  std::string folder = "/tmp/millrace.XXXXXX";  // Bazel's are too long
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/millrace.sock";
  TestServer server(path);
  ASSERT_EQ(remove(path.c_str()), 0);
  ::testing::internal::CaptureStderr();
  {
    auto loader = OpenHostLoader(Options(server.address(), SameHost::kAuto));
    ASSERT_TRUE(loader.ok());
    Receive(**loader, 100);
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("another machine or in another network namespace"));
  EXPECT_EQ(server.Status().same_host_links(), 0);
  EXPECT_EQ(rmdir(folder.c_str()), 0);
}

}  // namespace
}  // namespace millrace::receive
