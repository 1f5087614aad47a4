// What a real server does with its memory when the work is over: calls that
// were cancelled in the middle leave malloc and pools full of what the next
// batches would use, and none come.

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "proto/names.h"
#include "tests/testing/process_memory.h"
#include "tests/testing/rpc_client.h"
#include "tests/testing/service.h"

namespace millrace {
namespace {

using testing::AnonymousBytes;
using testing::RpcClient;

constexpr uint64_t kMiB = 1 << 20;

using MemoryReturnTest = testing::ServiceTest;

TEST_F(MemoryReturnTest, AnIdleServerGivesItsMemoryBack) {
  auto server =
      Serve({"--synthetic_only", "--memory_budget=512MiB", "--threads=2"});
  const pid_t pid = server->process().pid();
  std::atomic<int> under_way{6};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      RpcClient client(server->address());
      // Also of sizes that are no mappings of their own.
      const auto plan = client.Open(
          SyntheticSpec(1'000'000, {224, 224, 3}, t % 2 == 0 ? 64 : 5), 1);
      EXPECT_TRUE(plan.ok()) << plan.status();
      for (int call = 0; plan.ok() && call < 30; ++call) {
        grpc::ClientContext context;
        auto reader = client.stub().GetBatches(
            &context, RpcClient::Request(*plan, call * 100, 100));
        Frame frame;
        for (int i = 0; i < 3; ++i) reader->Read(&frame);
        context.TryCancel();
        while (reader->Read(&frame)) {
        }
        reader->Finish();
      }
      --under_way;
    });
  }
  uint64_t peak = 0;
  while (under_way > 0) {
    peak = std::max(peak, AnonymousBytes(pid));
    absl::SleepFor(absl::Milliseconds(10));
  }
  for (std::thread& thread : threads) thread.join();
  // Otherwise there is nothing to give back.
  EXPECT_GT(peak, 150 * kMiB);
  EXPECT_LT(peak, (512 + 200) * kMiB);

  const auto is_small = [&] { return AnonymousBytes(pid) < 100 * kMiB; };
  EXPECT_TRUE(Soon(is_small, absl::Seconds(60))) << AnonymousBytes(pid);
  // It serves on.
  RpcClient client(server->address());
  const auto status = client.GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_GT(status->memory_resident_bytes(), 0);
  EXPECT_GT(status->memory_reserved_bytes(), 0);
  EXPECT_LE(status->memory_reserved_bytes(), status->memory_used_bytes());
  // The line had an empty name.
  EXPECT_NE(server->process().Stderr().find(
                "job opened: synthetic data, world size 1: "),
            std::string::npos);
  EXPECT_EQ(server->Stop(), 0);
}

}  // namespace
}  // namespace millrace
