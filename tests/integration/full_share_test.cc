// Ten slow connections of an address fill its share of the server's memory, of
// which a batch is more than an eighth: another client of the address may get
// nothing. The budget that the server then names, given back to it, is one with
// which that client gets its batches. Connections that read promptly keep a
// client with large batches waiting for a moment only.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "proto/data_service.grpc.pb.h"
#include "proto/names.h"
#include "tests/testing/rpc_client.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSlow = 10;
constexpr uint64_t kSteps = 5;

// Requests batches and reads none.
class SlowConnection {
 public:
  SlowConnection(const std::string& address, const OpenResponse& plan)
      : client_(address),
        stream_(client_.stub().GetBatches(&context_,
                                          RpcClient::Request(plan, 0, 1000))) {}
  ~SlowConnection() {
    context_.TryCancel();
    stream_->Finish();
  }

 private:
  RpcClient client_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<Frame>> stream_;
};

class FullShareTest : public ServiceTest {
 protected:
  void Serve(uint64_t budget_mib) {
    slow_.clear();
    server_.reset();
    server_ = ServiceTest::Serve(
        {"--synthetic_only", "--threads=2", "--batch_timeout=500ms",
         "--send_timeout=5m",
         absl::StrCat("--memory_budget=", budget_mib, "MiB")});
    // Batches of 9.2 MiB.
    const auto plan =
        RpcClient(server_->address())
            .Open(SyntheticSpec(64 * 10'000, {224, 224, 3}, 64), 1);
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_ = *plan;
    for (int i = 0; i < kSlow; ++i) {
      slow_.push_back(
          std::make_unique<SlowConnection>(server_->address(), plan_));
    }
    // Until they hold what they can: nothing more is made for them.
    uint64_t used = 0;
    for (int still = 0; still < 10;) {
      absl::SleepFor(absl::Milliseconds(100));
      const uint64_t now =
          RpcClient(server_->address()).GetStatus()->memory_used_bytes();
      still = now == used && now > plan_.max_payload_bytes() ? still + 1 : 0;
      used = now;
    }
  }

  GetStatusResponse Status() {
    const auto status = RpcClient(server_->address()).GetStatus();
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? *status : GetStatusResponse();
  }

  std::unique_ptr<ServerProcess> server_;
  OpenResponse plan_;
  std::vector<std::unique_ptr<SlowConnection>> slow_;
};

TEST_F(FullShareTest, TheBudgetThatIsNamedHelps) {
  ASSERT_NO_FATAL_FAILURE(Serve(76));
  FullShare full;
  ProgramResult shown;
  size_t shut_out_clients = 0;
  {
    // The first may be let in where the others do not hold all that they can:
    // then another one comes.
    std::vector<std::unique_ptr<SlowConnection>> shut_out;
    // The share may be full before all connections have come, and the server
    // ends calls that hold too much. Compares once the status is the same
    // before and after the program's own look.
    bool steady = false;
    for (int i = 0; i < 300 && !steady; ++i) {
      if (i % 50 == 0) {
        shut_out.push_back(
            std::make_unique<SlowConnection>(server_->address(), plan_));
        shut_out_clients = shut_out.size();
      }
      absl::SleepFor(absl::Milliseconds(100));
      const GetStatusResponse before = Status();
      if (before.full_shares_size() == 0) continue;
      shown = RunProgram({ProgramPath("client/cli/millrace"), "status",
                          "--endpoint=" + server_->address()});
      const GetStatusResponse after = Status();
      steady = after.full_shares_size() > 0 &&
               after.active_streams() == before.active_streams() &&
               after.full_shares(0).SerializeAsString() ==
                   before.full_shares(0).SerializeAsString();
      full = before.full_shares(0);
      // Each has a connection of its own.
      if (steady) {
        EXPECT_EQ(full.connections(), after.active_streams());
      }
    }
    ASSERT_TRUE(steady) << "no share stays full";
  }
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(
      shown.out,
      AllOf(HasSubstr("FULL SHARE OF"), HasSubstr("ipv4:127.0.0.1"),
            HasSubstr(absl::StrCat("--memory_budget to ",
                                   full.advised_budget_bytes() >> 20, "MiB"))));
  EXPECT_EQ(full.peer(), "ipv4:127.0.0.1");
  EXPECT_GT(full.connections(), 1);
  EXPECT_LE(full.connections(), kSlow + shut_out_clients);
  EXPECT_GE(full.waiting_clients(), 1);
  EXPECT_LT(full.waiting_clients(), full.connections());
  // With what one that was not known to be slow took of the free quarter.
  EXPECT_LE(full.held_bytes(), full.share_bytes() / 3 * 4);
  ASSERT_GT(full.advised_budget_bytes(), uint64_t{76} << 20);

  ASSERT_NO_FATAL_FAILURE(Serve(full.advised_budget_bytes() >> 20));
  std::vector<ReceivedBatch> batches;
  const absl::Status status =
      RpcClient(server_->address())
          .GetBatches(RpcClient::Request(plan_, 0, kSteps), &batches);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(batches.size(), kSteps);
}

// Reads `steps` batches of its own connection, without keeping any.
absl::Status ReadAll(const std::string& address, const OpenResponse& plan,
                     uint64_t steps, grpc::ClientContext* context) {
  RpcClient client(address);
  auto stream =
      client.stub().GetBatches(context, RpcClient::Request(plan, 0, steps));
  Frame frame;
  while (stream->Read(&frame)) {
  }
  const grpc::Status status = stream->Finish();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

using LargeBatchTest = ServiceTest;

// The small batches took each byte that became free.
TEST_F(LargeBatchTest, SmallBatchesOfTheAddressDoNotKeepItWaiting) {
  auto server = ServerProcess::Start(
      {"--synthetic_only", "--threads=2", "--memory_budget=76MiB"});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->address();
  // 69 MiB for batches, 52 MiB for the address: room for one large batch and
  // four small ones.
  const auto large = RpcClient(address).Open(
      SyntheticSpec(64 * 10'000, {224, 224, 3}, 300), 1);
  const auto small =
      RpcClient(address).Open(SyntheticSpec(64 * 10'000, {224, 224, 3}, 16), 1);
  ASSERT_TRUE(large.ok() && small.ok()) << large.status() << small.status();
  constexpr int kClients = 8;
  std::vector<grpc::ClientContext> contexts(kClients);
  std::vector<std::thread> clients;
  for (grpc::ClientContext& context : contexts) {
    clients.emplace_back(
        [&] { (void)ReadAll(address, *small, 10'000, &context); });
  }
  absl::SleepFor(absl::Seconds(1));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(15)));
  const absl::Status status = ReadAll(address, *large, 3, &context);
  EXPECT_TRUE(status.ok()) << status;
  for (grpc::ClientContext& one : contexts) one.TryCancel();
  for (std::thread& client : clients) client.join();
}

}  // namespace
}  // namespace millrace::testing
