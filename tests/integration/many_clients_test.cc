// More clients than a server can feed: 200 loaders of one process want more
// memory than the server's budget has. All of them finish with the same bytes,
// none starves meanwhile, and the server stays within its budget.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "client/prefetch/host_loader.h"
#include "client/receive/open_host_loader.h"
#include "proto/spec_text.h"
#include "tests/testing/process_memory.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"
#include "xxhash.h"

namespace millrace {
namespace {

using ::millrace::testing::ServerProcess;

constexpr int kClients = 200;
constexpr uint64_t kBatch = 1024;
constexpr uint64_t kSteps = 36;
constexpr uint32_t kWindow = 4;
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kBudget = 512 * kMiB;
// Code, connections, gRPC's buffers: what is no batch.
constexpr uint64_t kBesideBudget = 200 * kMiB;
// When the first client is through, each other has come at least so far: none
// has nothing. Many steps, because those that come first are given a whole
// window at once: of 12 some had none when the first had all. With turns taken
// in order all would be done at the same time; measured on two cores, the last
// of the 200 was at step 7 to 13 when the first had done 36, and at step 4
// beside another test. How far apart they are depends on the machine's load:
// the server shares time. A task that waits 50 ms for a lock costs its client
// the turns of 50 ms. So only starving is a mistake here, and
// WorkerTimeIsSharedWhateverTheWindow compares worker time.
constexpr uint64_t kMinSteps = 1;

struct Client {
  std::unique_ptr<HostLoader> loader;
  std::atomic<uint64_t> steps{0};
  uint64_t digest = 0;  // of all payloads, in order
  absl::Status status;
};

absl::Status Receive(const HostLoaderOptions& options, Client& client) {
  absl::StatusOr<std::unique_ptr<HostLoader>> loader =
      receive::OpenHostLoader(options);
  if (!loader.ok()) return loader.status();
  client.loader = *std::move(loader);
  while (true) {
    absl::StatusOr<HostBatch> batch = client.loader->Next();
    if (absl::IsOutOfRange(batch.status())) return absl::OkStatus();
    if (!batch.ok()) return batch.status();
    client.digest = XXH3_64bits_withSeed(batch->payload.data(),
                                         batch->payload.size(), client.digest);
    client.steps.fetch_add(1);
  }
}

// Clients that began at the same time, each with an epoch to receive.
struct Crowd {
  explicit Crowd(int count) : clients(count) {}

  // Receives with all of them; the server's memory is sampled meanwhile.
  void Run(const HostLoaderOptions& options, pid_t server) {
    std::atomic<int> running{static_cast<int>(clients.size())};
    std::atomic<bool> first_is_through{false};
    std::vector<std::thread> threads;
    for (Client& client : clients) {
      threads.emplace_back([&] {
        client.status = Receive(options, client);
        if (!first_is_through.exchange(true)) {
          for (const Client& other : clients) {
            steps_then.push_back(other.steps.load());
          }
        }
        running.fetch_sub(1);
      });
    }
    while (running.load() > 0) {
      most_memory = std::max(most_memory, testing::AnonymousBytes(server));
      absl::SleepFor(absl::Milliseconds(10));
    }
    for (std::thread& thread : threads) thread.join();
  }

  void ExpectAllHaveTheEpoch(uint64_t steps) {
    for (const Client& client : clients) {
      ASSERT_TRUE(client.status.ok()) << client.status;
      EXPECT_EQ(client.steps.load(), steps);
      EXPECT_EQ(client.digest, clients[0].digest);
    }
  }

  std::vector<Client> clients;
  std::vector<uint64_t> steps_then;  // when the first was through
  uint64_t most_memory = 0;          // of the server
};

class ManyClientsTest : public testing::ServiceTest {
 protected:
  static HostLoaderOptions Options(const ServerProcess& server) {
    HostLoaderOptions options = ServiceTest::Options(server.address(), kBatch);
    options.window = kWindow;
    options.verify_payload = false;
    options.open_timeout = absl::Seconds(60);
    return options;
  }

  // Worker time of each client so far.
  static std::map<std::string, double> WorkerSeconds(
      const ServerProcess& server) {
    std::map<std::string, double> seconds;
    const GetStatusResponse status = StatusOf(server);
    for (const ClientShare& client : status.clients()) {
      // Not that of opening.
      if (client.dataset() == "digits") {
        seconds[client.client()] = client.worker_seconds();
      }
    }
    return seconds;
  }
};

TEST_F(ManyClientsTest, AllFinishNoneStarvesAndTheServerKeepsItsBudget) {
  const auto server =
      Serve({Digits(kBatch * kSteps), "--threads=2", "--memory_budget=512MiB"});
  Crowd crowd(kClients);
  crowd.Run(Options(*server), server->process().pid());
  crowd.ExpectAllHaveTheEpoch(kSteps);
  // Together they wanted more than there is.
  const uint64_t payload = crowd.clients[0].loader->plan().max_payload_bytes();
  EXPECT_GT(payload * kWindow * kClients, kBudget);
  EXPECT_LE(crowd.most_memory, kBudget + kBesideBudget);
  ASSERT_EQ(crowd.steps_then.size(), kClients);
  const uint64_t least =
      *std::min_element(crowd.steps_then.begin(), crowd.steps_then.end());
  EXPECT_GE(least, kMinSteps);
  std::printf(
      "the last of %d clients was at step %d of %d when the first was through; "
      "the server had at most %d MiB\n",
      kClients, static_cast<int>(least), static_cast<int>(kSteps),
      static_cast<int>(crowd.most_memory / kMiB));
}

// Every client always has more batches requested than it is given, so neither
// its own speed nor the machine's load decides. Measured on two cores at a load
// of 20: the largest part was up to 1.1 times the smallest.
TEST_F(ManyClientsTest, WorkerTimeIsSharedWhateverTheWindow) {
  constexpr size_t kSharers = 8;          // GetStatus lists 10 clients
  constexpr double kMeasuredSeconds = 8;  // of all workers
  const auto server =
      Serve({Digits(1000), "--threads=2", "--memory_budget=512MiB"});
  HostLoaderOptions options = ServiceTest::Options(server->address(), 32);
  const auto spec = ParseSpecText(
      "sources { dataset: 'digits' } batch_size: 32 "
      "transforms { pad { padding: 100 } } "
      "transforms { gaussian_blur { kernel_size: 31 } } "
      "transforms { center_crop { height: 28 width: 28 } }",
      "the test");
  ASSERT_TRUE(spec.ok()) << spec.status();
  options.spec = *spec;
  options.epochs = 0;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kSharers; ++i) {
    options.window = i % 2 == 0 ? 4 : 32;
    threads.emplace_back([options, &stop] {
      const auto loader = receive::OpenHostLoader(options);
      ASSERT_TRUE(loader.ok()) << loader.status();
      while (!stop.load()) {
        const auto batch = (*loader)->Next();
        ASSERT_TRUE(batch.ok()) << batch.status();
      }
    });
  }
  std::map<std::string, double> before, after;
  double given = 0;
  const absl::Time give_up = absl::Now() + absl::Minutes(2);
  while (given < kMeasuredSeconds && absl::Now() < give_up) {
    absl::SleepFor(absl::Milliseconds(100));
    after = WorkerSeconds(*server);
    if (before.size() < kSharers) before = after;
    given = 0;
    for (const auto& [client, seconds] : after) {
      given += seconds - before[client];
    }
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(before.size(), kSharers);
  ASSERT_GE(given, kMeasuredSeconds);
  double least = given, most = 0;
  for (const auto& [client, seconds] : after) {
    least = std::min(least, seconds - before[client]);
    most = std::max(most, seconds - before[client]);
  }
  std::printf("each of %d clients was given %.3f to %.3f s of worker time\n",
              static_cast<int>(kSharers), least, most);
  EXPECT_LE(most, 1.3 * least);
}

// Clients of one host wait for their share of the memory, not for memory: none
// is refused, however short the time.
TEST_F(ManyClientsTest, NoneIsRefusedMemoryWhereSharesAreSmall) {
  const auto server =
      Serve({Digits(kBatch * kSteps), "--threads=2", "--memory_budget=64MiB",
             "--admission_timeout=1ms"});
  Crowd crowd(50);
  crowd.Run(Options(*server), server->process().pid());
  crowd.ExpectAllHaveTheEpoch(kSteps);
  EXPECT_EQ(StatusOf(*server).refused_admissions(), 0);
  EXPECT_LE(crowd.most_memory, 64 * kMiB + kBesideBudget);
}

}  // namespace
}  // namespace millrace
