// Many slow connections of an address fill its share of the server's memory,
// each with one batch, and more of them wait. A prompt client of the address
// takes little longer than alone, and the slow ones get their batches whole.
// (Paces, turns and credit: tests/server/rpc/slow_connections_test.cc, in
// simulated time.)

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "proto/data_service.grpc.pb.h"
#include "proto/names.h"
#include "tests/testing/rpc_client.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"
#include "tests/testing/tcp_gate.h"

namespace millrace::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// Requests `steps` batches over a connection of its own, and again what the
// server takes back.
class Client {
 public:
  Client(const std::string& address, const OpenResponse& plan, uint64_t first,
         uint64_t steps, absl::Duration pause)
      : thread_([=, this] { Read(address, plan, first, steps, pause); }) {}
  ~Client() {
    stopping_ = true;
    thread_.join();
  }

  // Has all its batches, after this time.
  bool is_done() const { return done_; }
  absl::Duration took() const { return took_; }
  // Calls that the server has ended.
  int ended() const { return ended_; }

 private:
  void Read(const std::string& address, const OpenResponse& plan,
            uint64_t first, uint64_t steps, absl::Duration pause) {
    const absl::Time start = absl::Now();
    RpcClient client(address);
    uint64_t next = first;
    while (next < first + steps && !stopping_) {
      grpc::ClientContext context;
      auto reader = client.stub().GetBatches(
          &context, RpcClient::Request(plan, next, first + steps - next));
      uint64_t bytes = 0;  // of the batch that is not whole
      Frame frame;
      while (!stopping_ && reader->Read(&frame)) {
        if (frame.has_header()) bytes = 0;
        bytes += frame.data().size();
        // The batches of the test have one size, and one worker makes them in
        // order.
        if (bytes >= plan.max_payload_bytes()) ++next;
        for (absl::Duration slept; slept < pause && !stopping_;
             slept += absl::Milliseconds(20)) {
          absl::SleepFor(absl::Milliseconds(20));
        }
      }
      if (stopping_) context.TryCancel();
      while (reader->Read(&frame)) {
      }
      if (!reader->Finish().ok() && !stopping_) {
        ++ended_;
        absl::SleepFor(absl::Milliseconds(50));
      }
    }
    took_ = absl::Now() - start;
    done_ = next == first + steps;
  }

  std::atomic<bool> stopping_{false};
  std::atomic<int> ended_{0};
  absl::Duration took_;  // set before done_
  std::atomic<bool> done_{false};
  std::thread thread_;
};

class SlowConnectionsTest : public ServiceTest {
 protected:
  // Batches of 9.2 MiB; the address's share has ten of them.
  void Start(const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"--synthetic_only", "--threads=1",
                                      "--memory_budget=192MiB",
                                      "--send_timeout=5m"};
    flags.insert(flags.end(), more.begin(), more.end());
    server_ = Serve(flags);
    const auto plan =
        RpcClient(server_->address())
            .Open(SyntheticSpec(64 * 10'000, {224, 224, 3}, 64), 1);
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_ = *plan;
  }

  // How long a client takes for its batches; it does not end before that.
  absl::Duration Take(uint64_t steps) {
    Client client(server_->address(), plan_, 5000, steps, absl::ZeroDuration());
    EXPECT_TRUE(Soon([&] { return client.is_done(); }, absl::Minutes(2)));
    return client.is_done() ? client.took() : absl::InfiniteDuration();
  }

  std::unique_ptr<ServerProcess> server_;
  OpenResponse plan_;
};

// An audit took 11 s beside 20 slow connections, and 43 s beside 50. The bar is
// three times as long as alone; a second more is for a busy machine.
TEST_F(SlowConnectionsTest, APromptClientOfTheAddressGoesOn) {
  constexpr int kSlow = 40;
  constexpr uint64_t kSteps = 60;
  ASSERT_NO_FATAL_FAILURE(Start({}));
  const absl::Duration alone = Take(kSteps);
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < kSlow; ++i) {
    slow.push_back(std::make_unique<Client>(server_->address(), plan_, 100 * i,
                                            100, absl::Seconds(1)));
  }
  // What the slow ones can hold is held, and some are known to be slow.
  ASSERT_TRUE(
      Soon([&] { return StatusOf(*server_).memory_used_bytes() > 96 * kMiB; },
           absl::Minutes(1)));
  for (int round = 0; round < 3; ++round) {
    absl::SleepFor(absl::Seconds(3));
    const absl::Duration beside = Take(kSteps);
    EXPECT_LE(beside, 3 * alone + absl::Seconds(1)) << round;
    std::printf("%d batches: alone %.2f s, beside %d slow connections %.2f s\n",
                static_cast<int>(kSteps), absl::ToDoubleSeconds(alone), kSlow,
                absl::ToDoubleSeconds(beside));
  }
}

// Twenty links of the address, together 16 MB/s: each batch takes longer than
// --batch_timeout. Beside a prompt client each gets all its batches, and loses
// few of them.
TEST_F(SlowConnectionsTest, SlowLinksGetTheirBatches) {
  constexpr int kSlow = 20;
  constexpr uint64_t kSteps = 2;
  ASSERT_NO_FATAL_FAILURE(Start({"--batch_timeout=500ms"}));
  TcpGate gate(server_->port());
  gate.Limit(16'000'000);
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < kSlow; ++i) {
    slow.push_back(std::make_unique<Client>(gate.address(), plan_, 100 * i,
                                            kSteps, absl::ZeroDuration()));
  }
  Client prompt(server_->address(), plan_, 5000, 100'000, absl::ZeroDuration());
  EXPECT_TRUE(Soon(
      [&] {
        for (const auto& one : slow) {
          if (!one->is_done()) return false;
        }
        return true;
      },
      absl::Minutes(3)));
  for (const auto& one : slow) {
    EXPECT_TRUE(one->is_done());
    EXPECT_LE(one->ended(), 4 * static_cast<int>(kSteps));
  }
}

}  // namespace
}  // namespace millrace::testing
