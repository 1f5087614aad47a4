// The data service as a client meets it, over an engine that is a fake: what
// is streamed and in which order, what is refused, and where the memory goes
// when a client is slow, stuck or gone.

#include "server/rpc/rpc_server.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/byte_budget.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/blocked_call.h"
#include "proto/byte_buffer.h"
#include "proto/error_detail.h"
#include "proto/grpc_status.h"
#include "proto/wire/message_digest.h"
#include "proto/wire/version.h"
#include "server/rpc/watchdog.h"
#include "tests/server/storage/memory/memory_source.h"
#include "tests/testing/fake_engine.h"
#include "tests/testing/rpc_client.h"

namespace millrace::rpc {
namespace {

using testing::FakeEngine;
using testing::FirstWrongByte;
using ::testing::HasSubstr;
using testing::ReceivedBatch;
using testing::RpcClient;

constexpr uint64_t kMiB = 1 << 20;

// Waits for something that other threads bring about. It fails only when it
// does not happen at all.
bool Eventually(const std::function<bool()>& condition) {
  const absl::Time give_up = absl::Now() + absl::Seconds(30);
  while (!condition()) {
    if (absl::Now() > give_up) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

// A unary call of any method with bytes as they are.
grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                     const std::string& method, const std::string& request,
                     std::string* response) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  auto call =
      stub.PrepareUnaryCall(&context, method, ToByteBuffer(request), &queue);
  call->StartCall();
  grpc::ByteBuffer bytes;
  grpc::Status status;
  call->Finish(&bytes, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (status.ok()) *response = ToString(bytes);
  return status;
}

class RpcServerTest : public ::testing::Test {
 protected:
  RpcServerTest() {
    config_.budget = &budget_;
    options_.listen = "127.0.0.1:0";
    options_.budget = &budget_;
    options_.content_revision = 7;
    options_.shutdown_grace = absl::ZeroDuration();
  }

  void StartServer() {
    engine_ = std::make_unique<FakeEngine>(config_);
    options_.engine = engine_.get();
    auto server = RpcServer::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ = std::make_unique<RpcClient>(server_->address());
  }

  OpenResponse Plan() {
    auto plan = client_->Open(PipelineSpec(), 1);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? *plan : OpenResponse();
  }

  void ExpectBatch(const ReceivedBatch& batch) {
    ASSERT_EQ(batch.payload.size(), config_.payload_bytes);
    ASSERT_EQ(FirstWrongByte(batch.payload.data(), batch.payload.size(),
                             batch.header.epoch(), batch.header.step(),
                             batch.header.rank()),
              batch.payload.size())
        << "step " << batch.header.step();
  }

  absl::Status Refusal(const GetBatchesRequest& request) {
    std::vector<ReceivedBatch> batches;
    const absl::Status status = client_->GetBatches(request, &batches);
    EXPECT_TRUE(batches.empty());
    return status;
  }

  ByteBudget budget_{16 * kMiB};
  FakeEngine::Config config_;
  RpcServer::Options options_;
  std::unique_ptr<FakeEngine> engine_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<RpcClient> client_;
};

TEST_F(RpcServerTest, OpenAnswersThePlan) {
  StartServer();
  const OpenResponse plan = Plan();
  EXPECT_EQ(plan.protocol_version(), wire::kProtocolVersion);
  EXPECT_EQ(plan.plan_hash(), "plan-a");
  EXPECT_EQ(plan.max_payload_bytes(), config_.payload_bytes);
  EXPECT_EQ(client_->Open(PipelineSpec(), 9).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(RpcServerTest, ErrorsOfOpenComeThroughWithTheirDetail) {
  ErrorDetail detail = MakeErrorDetail("plan");
  detail.set_dataset("photos");
  config_.open_status =
      WithErrorDetail(absl::NotFoundError("no dataset `photos`"), detail);
  StartServer();
  const absl::Status status = client_->Open(PipelineSpec(), 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no dataset `photos`");
  EXPECT_EQ(GetErrorDetail(status).stage(), "plan");
  EXPECT_EQ(GetErrorDetail(status).dataset(), "photos");
}

// A client that takes little of a call which nobody reads: its windows do not
// follow what the link carries.
std::unique_ptr<v1::DataService::Stub> NarrowClient(
    const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 64 << 10);
  return v1::DataService::NewStub(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments));
}

class PayloadSizeTest : public RpcServerTest,
                        public ::testing::WithParamInterface<uint64_t> {};

TEST_P(PayloadSizeTest, EveryStepComesOnceAndWhole) {
  config_.payload_bytes = GetParam();
  const uint64_t steps = config_.payload_bytes > kMiB ? 6 : 40;
  StartServer();
  GetBatchesRequest request = RpcClient::Request(Plan(), 100, steps);
  request.set_epoch(3);
  request.set_rank(1);
  request.set_world_size(2);
  std::vector<ReceivedBatch> batches;
  const absl::Status status = client_->GetBatches(request, &batches);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(batches.size(), steps);
  std::set<uint64_t> seen;
  for (const ReceivedBatch& batch : batches) {
    ExpectBatch(batch);
    EXPECT_EQ(batch.header.epoch(), 3);
    EXPECT_EQ(batch.header.rank(), 1);
    seen.insert(batch.header.step());
  }
  EXPECT_EQ(seen.size(), steps);
  EXPECT_EQ(*seen.begin(), 100);
  EXPECT_EQ(*seen.rbegin(), 99 + steps);
  EXPECT_TRUE(Eventually([&] { return budget_.used() == 0; }));
  EXPECT_LE(budget_.peak(), budget_.capacity());
}

INSTANTIATE_TEST_SUITE_P(Sizes, PayloadSizeTest,
                         ::testing::Values(0, 1, 1000, wire::kFrameDataBytes,
                                           wire::kFrameDataBytes + 1,
                                           3 * wire::kFrameDataBytes + 5,
                                           // two do not fit the budget
                                           9 * kMiB));

TEST_F(RpcServerTest, LongRangesAreAskedForInParts) {
  config_.payload_bytes = 16;
  StartServer();
  std::vector<ReceivedBatch> batches;
  ASSERT_TRUE(
      client_->GetBatches(RpcClient::Request(Plan(), 0, 5000), &batches).ok());
  EXPECT_EQ(batches.size(), 5000);
  EXPECT_GT(engine_->runs_done(), 1);
}

TEST_F(RpcServerTest, SeveralCallsAtOnce) {
  config_.payload_bytes = 300000;
  StartServer();
  const OpenResponse plan = Plan();
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      std::vector<ReceivedBatch> batches;
      const absl::Status status =
          client_->GetBatches(RpcClient::Request(plan, i * 20, 20), &batches);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(batches.size(), 20);
      for (const ReceivedBatch& batch : batches) ExpectBatch(batch);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(budget_.peak(), budget_.capacity());
}

TEST_F(RpcServerTest, RefusesWhatDoesNotFitThePlan) {
  StartServer();
  const OpenResponse plan = Plan();
  const auto refused = [&](absl::StatusCode code, const std::string& says,
                           const std::function<void(GetBatchesRequest*)>& set) {
    GetBatchesRequest request = RpcClient::Request(plan, 0, 1);
    set(&request);
    const absl::Status status = Refusal(request);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(says));
    EXPECT_EQ(GetErrorDetail(status).stage(), "rpc");
  };
  using Request = GetBatchesRequest*;
  refused(absl::StatusCode::kFailedPrecondition, "protocol version 99",
          [](Request r) { r->set_protocol_version(99); });
  refused(absl::StatusCode::kFailedPrecondition, "fingerprint old",
          [](Request r) { r->set_expected_fingerprint("old"); });
  refused(absl::StatusCode::kFailedPrecondition, "the plan differs",
          [](Request r) { r->set_plan_hash("old"); });
  refused(absl::StatusCode::kOutOfRange, "an epoch has steps 0 to 999999",
          [](Request r) { r->set_first_step(1'000'000); });
  refused(absl::StatusCode::kInvalidArgument, "step_count",
          [](Request r) { r->set_step_count(0); });
  refused(absl::StatusCode::kInvalidArgument, "world size 9",
          [](Request r) { r->set_world_size(9); });
  refused(absl::StatusCode::kInvalidArgument, "world size 0",
          [](Request r) { r->set_world_size(0); });
  refused(absl::StatusCode::kInvalidArgument, "rank 1",
          [](Request r) { r->set_rank(1); });
  // The server goes on.
  std::vector<ReceivedBatch> batches;
  EXPECT_TRUE(
      client_->GetBatches(RpcClient::Request(plan, 0, 3), &batches).ok());
  EXPECT_EQ(batches.size(), 3);
}

TEST_F(RpcServerTest, RefusesARequestThatIsNoMessage) {
  StartServer();
  std::string response;
  const grpc::Status status =
      CallRaw(client_->channel(), "/millrace.v1.DataService/GetBatches",
              "\xff\xff\xff\xff", &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  // It may have been damaged on the way.
  EXPECT_TRUE(GetErrorDetail(FromGrpcStatus(status)).request_damaged());
  EXPECT_TRUE(client_->GetStatus().ok());
}

// A flipped bit was a mistake of the user: an unknown dataset, a rank that is
// none of the world, another plan.
TEST_F(RpcServerTest, ARequestThatWasDamagedIsSaidToBe) {
  StartServer();
  OpenRequest open;
  open.set_protocol_version(wire::kProtocolVersion);
  open.mutable_spec()->add_sources()->set_dataset("d");
  DescribeDatasetRequest describe;
  describe.set_dataset("d");
  ExplainBatchRequest explain;
  *explain.mutable_batch() = RpcClient::Request(Plan(), 3, 1);
  const std::string methods = "/millrace.v1.DataService/";
  for (const auto& [method, good] :
       {std::pair(methods + "Open", wire::WithDigest(open.SerializeAsString())),
        std::pair(methods + "DescribeDataset",
                  wire::WithDigest(describe.SerializeAsString())),
        std::pair(methods + "ListDatasets", wire::WithDigest("")),
        std::pair(methods + "GetStatus", wire::WithDigest("")),
        std::pair(methods + "ExplainBatch",
                  wire::WithDigest(explain.SerializeAsString())),
        std::pair(methods + "GetBatches",
                  wire::WithDigest(explain.batch().SerializeAsString()))}) {
    SCOPED_TRACE(method);
    std::string response;
    const grpc::Status whole =
        CallRaw(client_->channel(), method, good, &response);
    EXPECT_FALSE(GetErrorDetail(FromGrpcStatus(whole)).request_damaged());
    for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::string damaged = good;
      damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
      const absl::Status status = FromGrpcStatus(
          CallRaw(client_->channel(), method, damaged, &response));
      ASSERT_TRUE(absl::IsDataLoss(status)) << "bit " << bit << " " << status;
      ASSERT_TRUE(GetErrorDetail(status).request_damaged()) << "bit " << bit;
    }
  }
  // Of text that is not UTF-8 the request's digest says that it was sent so.
  std::string response;
  const absl::Status mistake = FromGrpcStatus(
      CallRaw(client_->channel(), methods + "Open",
              wire::WithDigest(std::string("\x12\x05\x1a\x03\x0a\x01\xff", 7)),
              &response));
  EXPECT_TRUE(absl::IsInvalidArgument(mistake)) << mistake;
  EXPECT_FALSE(GetErrorDetail(mistake).request_damaged());
}

// Messages in a message take many times their bytes when they are parsed.
TEST_F(RpcServerTest, ALargeRequestIsRefusedBeforeItIsParsed) {
  StartServer();
  std::string response;
  const grpc::Status status =
      CallRaw(client_->channel(), "/millrace.v1.DataService/GetBatches",
              std::string(300 << 10, '\xff'), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
      << status.error_message();
  EXPECT_TRUE(client_->GetStatus().ok());
}

TEST_F(RpcServerTest, BatchesBeforeAnErrorArriveAndTheDetailToo) {
  ErrorDetail detail = MakeErrorDetail("pipeline");
  detail.set_retry_delay_ms(250);
  config_.fail_at_step = 5;
  config_.fail_status =
      WithErrorDetail(absl::ResourceExhaustedError("no memory"), detail);
  StartServer();
  std::vector<ReceivedBatch> batches;
  const absl::Status status =
      client_->GetBatches(RpcClient::Request(Plan(), 2, 100), &batches);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorDetail(status).retry_delay_ms(), 250);
  EXPECT_EQ(batches.size(), 3);
}

TEST_F(RpcServerTest, ASlowReaderGetsAShareAndOthersGoOn) {
  config_.payload_bytes = kMiB;
  StartServer();
  const OpenResponse plan = Plan();
  RpcClient slow_client(server_->address());
  grpc::ClientContext context;
  auto slow = slow_client.stub().GetBatches(
      &context, RpcClient::Request(plan, 0, 100000));
  Frame frame;
  ASSERT_TRUE(slow->Read(&frame));  // and no more

  // It waits with a bounded number of batches.
  std::vector<ReceivedBatch> batches;
  ASSERT_TRUE(
      client_->GetBatches(RpcClient::Request(plan, 0, 200), &batches).ok());
  EXPECT_EQ(batches.size(), 200);
  // Its share (half of the budget while it was alone), what gRPC and the
  // kernel took, and the 200.
  EXPECT_LT(engine_->batches_made(), 200 + 60);
  EXPECT_LE(budget_.peak(), budget_.capacity());
  context.TryCancel();
  EXPECT_TRUE(Eventually([&] { return budget_.used() == 0; }));
}

// Half of the whole budget is more than scratch and caches have left: a reader
// that takes nothing must not have all of that.
TEST_F(RpcServerTest, SharesArePartsOfWhatTheBudgetHasForBatches) {
  config_.payload_bytes = kMiB / 4;
  config_.batch_budget_bytes = 6 * kMiB;
  // Not to be saved by it.
  options_.send_timeout = absl::Minutes(2);
  ByteBudget::Reservation held;
  ASSERT_TRUE(budget_.TryReserve(10 * kMiB, &held));
  StartServer();
  const OpenResponse plan = Plan();
  RpcClient slow_client(server_->address());
  grpc::ClientContext context;
  auto slow = slow_client.stub().GetBatches(
      &context, RpcClient::Request(plan, 0, 100000));
  Frame frame;
  ASSERT_TRUE(slow->Read(&frame));  // and no more
  std::vector<ReceivedBatch> batches;
  ASSERT_TRUE(
      client_->GetBatches(RpcClient::Request(plan, 0, 200), &batches).ok());
  EXPECT_EQ(batches.size(), 200);
  const auto status = client_->GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->cancelled_sends(), 0);
  context.TryCancel();
  EXPECT_TRUE(Eventually([&] { return budget_.used() == held.bytes(); }));
}

// Shares become smaller as clients come. What lies above them, and was made and
// not sent, goes to those who wait; it is made again, and nothing is lost.
TEST_F(RpcServerTest, BatchesOfASlowReaderAreTakenBackWhileOthersWait) {
  // More than gRPC takes of a call that nobody reads.
  config_.payload_bytes = 4 * kMiB;
  options_.batch_timeout = absl::Milliseconds(50);
  options_.send_timeout = absl::Minutes(2);  // not to be saved by it
  ByteBudget::Reservation held;
  ASSERT_TRUE(budget_.TryReserve(8 * kMiB, &held));
  config_.batch_budget_bytes = budget_.capacity();
  ::testing::internal::CaptureStderr();
  StartServer();
  const OpenResponse plan = Plan();
  constexpr uint64_t kSteps = 5;
  // Alone a client may have two batches, beside another one each has one. The
  // first has taken all that there is, and reads nothing.
  const std::unique_ptr<v1::DataService::Stub> clients[] = {
      NarrowClient(server_->address()), NarrowClient(server_->address())};
  grpc::ClientContext contexts[2];
  std::unique_ptr<grpc::ClientReader<Frame>> streams[2];
  for (int i = 0; i < 2; ++i) {
    GetBatchesRequest request = RpcClient::Request(plan, 0, kSteps);
    request.set_client_id(std::string(16, 'a' + i));
    streams[i] = clients[i]->GetBatches(&contexts[i], request);
    ASSERT_TRUE(Eventually(
        [&] { return engine_->batches_made() == (i == 0 ? 2 : 3); }));
  }
  EXPECT_EQ(client_->GetStatus()->revoked_batches(), 1);
  const auto receive = [&](int i) {
    std::set<uint64_t> steps;
    Frame frame;
    while (streams[i]->Read(&frame)) {
      if (frame.has_header()) steps.insert(frame.header().step());
    }
    EXPECT_TRUE(streams[i]->Finish().ok());
    EXPECT_EQ(steps.size(), kSteps);
  };
  std::thread first([&] { receive(0); });
  receive(1);
  first.join();
  EXPECT_GT(engine_->batches_made(), 2 * kSteps);
  EXPECT_TRUE(Eventually([&] { return budget_.used() == held.bytes(); }));
  // The line may be suppressed, if a test before this one has caused it.
  const std::string log = ::testing::internal::GetCapturedStderr();
  for (const char* const plural :
       {" 1 batches taken back", " 1 calls of slow", " 1 other batches wait"}) {
    EXPECT_EQ(log.find(plural), std::string::npos) << log;
  }
}

// Slow connections of an address filled its share, and neither the log nor the
// status said so, or with which budget they would not.
TEST_F(RpcServerTest, AShareThatSlowConnectionsFillIsNamedWithABudget) {
  config_.payload_bytes = 4 * kMiB;
  options_.batch_timeout = absl::Milliseconds(50);
  options_.send_timeout = absl::Minutes(2);  // not to be saved by it
  constexpr int kSlow = 3;                   // batches: all of 12 MiB
  uint64_t advised = 0;
  for (const bool larger : {false, true}) {
    SCOPED_TRACE(larger);
    ByteBudget budget(larger ? advised : budget_.capacity());
    config_.budget = &budget;
    options_.budget = &budget;
    ::testing::internal::CaptureStderr();
    StartServer();
    const OpenResponse plan = Plan();
    std::vector<std::unique_ptr<v1::DataService::Stub>> clients;
    std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
    std::vector<std::unique_ptr<grpc::ClientReader<Frame>>> streams;
    for (int i = 0; i < kSlow; ++i) {
      clients.push_back(NarrowClient(server_->address()));
      contexts.push_back(std::make_unique<grpc::ClientContext>());
      streams.push_back(clients.back()->GetBatches(
          contexts.back().get(), RpcClient::Request(plan, 100 * i, 1)));
      ASSERT_TRUE(Eventually([&] {
        return engine_->batches_made() == static_cast<uint64_t>(i + 1);
      }));
    }
    std::vector<ReceivedBatch> batches;
    std::thread good([&] {
      RpcClient client(server_->address());
      EXPECT_TRUE(
          client.GetBatches(RpcClient::Request(plan, 7, 1), &batches).ok());
    });
    if (!larger) {
      ASSERT_TRUE(Eventually(
          [&] { return client_->GetStatus()->full_shares_size() == 1; }));
      const FullShare share = client_->GetStatus()->full_shares(0);
      EXPECT_EQ(share.peer(), "ipv4:127.0.0.1");
      EXPECT_EQ(share.waiting_clients(), 1);
      EXPECT_EQ(share.connections(), kSlow + 1);
      EXPECT_EQ(share.held_bytes(), 12 * kMiB);
      EXPECT_EQ(share.share_bytes(), 12 * kMiB);
      advised = share.advised_budget_bytes();
      EXPECT_GT(advised, budget.capacity());
      EXPECT_LT(advised, 2 * budget.capacity());
      // The log's turn comes with the next look.
      absl::SleepFor(absl::Milliseconds(200));
      for (const auto& context : contexts) context->TryCancel();
    }
    good.join();
    EXPECT_EQ(batches.size(), 1);
    for (const auto& context : contexts) context->TryCancel();
    streams.clear();
    client_.reset();
    server_.reset();
    engine_.reset();
    const std::string log = ::testing::internal::GetCapturedStderr();
    const std::string line =
        "1 client of ipv4:127.0.0.1 gets no batches: the 4 connections of that "
        "address hold 12 MiB of batches, its share is 12 MiB of the memory "
        "budget of 16 MiB";
    if (larger) {
      EXPECT_THAT(log, ::testing::Not(HasSubstr("gets no batches")));
    } else {
      EXPECT_THAT(log, HasSubstr(line));
      EXPECT_THAT(log, HasSubstr("raise --memory_budget to " +
                                 std::to_string(advised >> 20) + "MiB"));
    }
  }
}

// Slow connections of an address held its whole share, each with its only
// batch, and another client of the address got nothing.
TEST_F(RpcServerTest, AClientGoesOnBesideSlowConnectionsOfItsAddress) {
  config_.payload_bytes = 4 * kMiB;
  options_.batch_timeout = absl::Milliseconds(50);
  options_.send_timeout = absl::Minutes(2);  // not to be saved by it
  ByteBudget budget(64 * kMiB);
  config_.budget = &budget;
  options_.budget = &budget;
  config_.batch_budget_bytes = budget.capacity();
  StartServer();
  const OpenResponse plan = Plan();
  constexpr size_t kFull = 12;   // batches: the share, 48 MiB
  constexpr size_t kBeside = 2;  // and 8 MiB, half of what is left
  struct Slow {
    std::unique_ptr<v1::DataService::Stub> stub;
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<Frame>> reader;
  };
  std::vector<std::unique_ptr<Slow>> slow;
  const auto add_slow = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t made = engine_->batches_made();
      Slow& one = *slow.emplace_back(std::make_unique<Slow>());
      one.stub = NarrowClient(server_->address());
      one.reader =
          one.stub->GetBatches(&one.context, RpcClient::Request(plan, 0, 1));
      ASSERT_TRUE(Eventually([&] { return engine_->batches_made() > made; }));
    }
  };
  const auto read_as_another = [&](uint64_t steps) {
    RpcClient client(server_->address());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(20));
    auto reader = client.stub().GetBatches(
        &context, RpcClient::Request(plan, 100, steps));
    Frame frame;
    uint64_t batches = 0;
    while (reader->Read(&frame)) batches += frame.has_header();
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(batches, steps);
  };
  add_slow(kFull);
  read_as_another(20);
  EXPECT_EQ(client_->GetStatus()->revoked_batches(), 0);
  // Two more, that turn out to be slow where another one could have been.
  add_slow(kBeside);
  read_as_another(20);
  EXPECT_GE(client_->GetStatus()->revoked_batches(), 1);
  for (size_t i = 0; i < slow.size(); ++i) {
    Frame frame;
    while (slow[i]->reader->Read(&frame)) {
    }
    const grpc::Status end = slow[i]->reader->Finish();
    // Those that were first have their batch whole, however slow they are.
    if (i < kFull) {
      EXPECT_TRUE(end.ok()) << i << ": " << end.error_message();
    } else if (!end.ok()) {
      EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAVAILABLE);
    }
  }
  EXPECT_TRUE(Eventually([&] { return budget.used() == 0; }));
  slow.clear();
  client_.reset();
  server_.reset();
  engine_.reset();
}

// What gRPC has been given comes back at the end of the call only.
TEST_F(RpcServerTest, ACallOfASlowReaderEndsWhereEachSendsItsOnlyBatch) {
  config_.payload_bytes = 4 * kMiB;
  options_.batch_timeout = absl::Milliseconds(50);
  options_.send_timeout = absl::Minutes(2);
  ByteBudget::Reservation held;
  ASSERT_TRUE(budget_.TryReserve(8 * kMiB, &held));
  config_.batch_budget_bytes = budget_.capacity();
  StartServer();
  const OpenResponse plan = Plan();
  const auto slow = NarrowClient(server_->address());
  grpc::ClientContext contexts[2];
  std::unique_ptr<grpc::ClientReader<Frame>> streams[2];
  for (int i = 0; i < 2; ++i) {
    GetBatchesRequest request = RpcClient::Request(plan, i, 1);
    request.set_client_id("slow");
    streams[i] = slow->GetBatches(&contexts[i], request);
    ASSERT_TRUE(Eventually([&] {
      return engine_->batches_made() == static_cast<uint64_t>(i + 1);
    }));
  }
  GetBatchesRequest request = RpcClient::Request(plan, 10, 1);
  request.set_client_id("other");
  std::vector<ReceivedBatch> batches;
  RpcClient other(server_->address());
  const absl::Status status = other.GetBatches(request, &batches);
  EXPECT_TRUE(status.ok()) << status;
  int ended = 0;
  for (auto& stream : streams) {
    Frame frame;
    while (stream->Read(&frame)) {
    }
    const grpc::Status end = stream->Finish();
    if (end.ok()) continue;
    EXPECT_EQ(end.error_code(), grpc::StatusCode::UNAVAILABLE);
    ++ended;
  }
  EXPECT_EQ(ended, 1);
}

TEST_F(RpcServerTest, TooManyStreamsAreRefusedWithADelay) {
  config_.payload_bytes = kMiB;
  options_.max_streams = 2;
  StartServer();
  const OpenResponse plan = Plan();
  grpc::ClientContext contexts[2];
  std::unique_ptr<grpc::ClientReader<Frame>> streams[2];
  Frame frame;
  for (int i = 0; i < 2; ++i) {
    streams[i] = client_->stub().GetBatches(
        &contexts[i], RpcClient::Request(plan, 0, 100000));
    ASSERT_TRUE(streams[i]->Read(&frame));
  }
  const absl::Status refusal = Refusal(RpcClient::Request(plan, 0, 1));
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted) << refusal;
  EXPECT_GT(GetErrorDetail(refusal).retry_delay_ms(), 0);
  contexts[0].TryCancel();
  // There is room again.
  EXPECT_TRUE(Eventually([&] {
    std::vector<ReceivedBatch> batches;
    return client_->GetBatches(RpcClient::Request(plan, 0, 1), &batches).ok();
  }));
  contexts[1].TryCancel();
}

TEST_F(RpcServerTest, ASlowReaderStillGetsEverything) {
  config_.payload_bytes = 100000;
  StartServer();
  grpc::ClientContext context;
  auto reader =
      client_->stub().GetBatches(&context, RpcClient::Request(Plan(), 0, 300));
  Frame frame;
  uint64_t batches = 0;
  while (reader->Read(&frame)) {
    if (!frame.has_header()) continue;
    if (++batches % 50 == 0) absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(batches, 300);
}

TEST_F(RpcServerTest, AStuckReaderIsCancelledAndItsMemoryFreed) {
  config_.payload_bytes = kMiB;
  options_.send_timeout = absl::Milliseconds(200);
  StartServer();
  grpc::ClientContext context;
  auto stuck = client_->stub().GetBatches(
      &context, RpcClient::Request(Plan(), 0, 100000));
  Frame frame;
  ASSERT_TRUE(stuck->Read(&frame));
  // It takes nothing until the server has had enough.
  ASSERT_TRUE(Eventually([&] {
    auto status = RpcClient(server_->address()).GetStatus();
    return status.ok() && status->cancelled_sends() == 1 &&
           status->active_streams() == 0;
  }));
  EXPECT_TRUE(Eventually([&] { return budget_.used() == 0; }));
  // The client learns that it may ask again.
  while (stuck->Read(&frame)) {
  }
  const grpc::Status status = stuck->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE)
      << status.error_code() << " " << status.error_message();
  // By this a client tells it from a connection that ended.
  EXPECT_TRUE(absl::StartsWith(status.error_message(), kTookNothing))
      << status.error_message();
}

TEST_F(RpcServerTest, ACancelledCallGivesItsMemoryBack) {
  config_.payload_bytes = kMiB;
  StartServer();
  const OpenResponse plan = Plan();
  for (int round = 0; round < 20; ++round) {
    grpc::ClientContext context;
    auto reader = client_->stub().GetBatches(
        &context, RpcClient::Request(plan, 0, 100000));
    Frame frame;
    for (int i = 0; i < round; ++i) ASSERT_TRUE(reader->Read(&frame));
    context.TryCancel();
    while (reader->Read(&frame)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(Eventually([&] { return budget_.used() == 0; }));
  EXPECT_TRUE(
      Eventually([&] { return client_->GetStatus()->active_streams() == 0; }));
}

TEST_F(RpcServerTest, AClientThatIsGoneGivesItsMemoryBack) {
  config_.payload_bytes = kMiB;
  StartServer();
  const OpenResponse plan = Plan();
  auto gone = std::make_unique<RpcClient>(server_->address());
  auto context = std::make_unique<grpc::ClientContext>();
  auto reader = gone->stub().GetBatches(context.get(),
                                        RpcClient::Request(plan, 0, 100000));
  Frame frame;
  ASSERT_TRUE(reader->Read(&frame));
  reader.reset();
  context.reset();  // the call
  gone.reset();     // the connection
  EXPECT_TRUE(Eventually([&] { return budget_.used() == 0; }));
}

TEST_F(RpcServerTest, StatusCounts) {
  StartServer();
  std::vector<ReceivedBatch> batches;
  ASSERT_TRUE(
      client_->GetBatches(RpcClient::Request(Plan(), 0, 10), &batches).ok());
  auto status = client_->GetStatus();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->protocol_version(), wire::kProtocolVersion);
  EXPECT_EQ(status->content_revision(), 7);
  EXPECT_EQ(status->decoder_digest(), "decoders-a");
  EXPECT_EQ(status->batches_sent(), 10);
  EXPECT_EQ(status->samples_sent(), 10);
  EXPECT_EQ(status->bytes_sent(), 10 * config_.payload_bytes);
  EXPECT_EQ(status->memory_budget_bytes(), budget_.capacity());
  EXPECT_EQ(status->threads(), 1);
  EXPECT_EQ(status->bad_samples(), 3);
  ASSERT_EQ(status->recent_bad_samples_size(), 1);
  EXPECT_EQ(status->recent_bad_samples(0).shard(), "part-2");
  EXPECT_EQ(status->recent_bad_samples(0).row(), 3);
  ASSERT_EQ(status->stages_size(), 1);
  EXPECT_FALSE(status->shutting_down());
  EXPECT_FALSE(status->version().empty());
}

TEST_F(RpcServerTest, DescribesItsDatasets) {
  DatasetInfo info;
  Field* field = info.mutable_schema()->add_fields();
  field->set_name("label");
  field->set_kind(FIELD_KIND_TENSOR);
  field->set_dtype(DTYPE_INT64);
  const std::string zero(8, '\0');
  config_.catalog["digits"] = storage::NewMemorySource(info, {{zero}, {zero}});
  StartServer();
  {
    grpc::ClientContext context;
    ListDatasetsResponse list;
    ASSERT_TRUE(client_->stub().ListDatasets(&context, {}, &list).ok());
    ASSERT_EQ(list.datasets_size(), 1);
    EXPECT_EQ(list.datasets(0).name(), "digits");
    EXPECT_EQ(list.datasets(0).samples(), 2);
  }
  {
    grpc::ClientContext context;
    DescribeDatasetRequest request;
    request.set_dataset("digits");
    DescribeDatasetResponse response;
    ASSERT_TRUE(
        client_->stub().DescribeDataset(&context, request, &response).ok());
    EXPECT_EQ(response.dataset().name(), "digits");
    EXPECT_EQ(response.dataset().schema().fields_size(), 1);
  }
  grpc::ClientContext context;
  DescribeDatasetRequest request;
  request.set_dataset("letters");
  DescribeDatasetResponse response;
  const grpc::Status status =
      client_->stub().DescribeDataset(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("`letters`; this server has: digits"));
}

TEST_F(RpcServerTest, HealthAndReflectionAnswer) {
  StartServer();
  std::string response;
  ASSERT_TRUE(
      CallRaw(client_->channel(), "/grpc.health.v1.Health/Check", "", &response)
          .ok());
  EXPECT_EQ(response, std::string("\x08\x01"));  // SERVING

  grpc::GenericStub stub(client_->channel());
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  auto call = stub.PrepareCall(
      &context,
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  const grpc::Slice list("\x3a\x00", 2);  // list_services: ""
  call->Write(grpc::ByteBuffer(&list, 1), nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::Slice slice;
  ASSERT_TRUE(answer.DumpToSingleSlice(&slice).ok());
  EXPECT_THAT(
      std::string(reinterpret_cast<const char*>(slice.begin()), slice.size()),
      HasSubstr("millrace.v1.DataService"));
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
}

TEST_F(RpcServerTest, ShutdownLetsStreamsFinish) {
  config_.payload_bytes = kMiB;
  options_.shutdown_grace = absl::Seconds(60);
  StartServer();
  grpc::ClientContext context;
  auto reader =
      client_->stub().GetBatches(&context, RpcClient::Request(Plan(), 0, 60));
  Frame frame;
  ASSERT_TRUE(reader->Read(&frame));
  const OpenResponse plan = Plan();

  std::thread stop([&] { server_->Shutdown(); });
  ASSERT_TRUE(Eventually([&] {
    auto status = client_->GetStatus();
    return status.ok() && status->shutting_down();
  }));
  // Health says so, new work is refused, the old goes on.
  std::string response;
  ASSERT_TRUE(
      CallRaw(client_->channel(), "/grpc.health.v1.Health/Check", "", &response)
          .ok());
  EXPECT_EQ(response, std::string("\x08\x02"));  // NOT_SERVING
  EXPECT_TRUE(absl::IsUnavailable(Refusal(RpcClient::Request(plan, 0, 1))));
  EXPECT_TRUE(absl::IsUnavailable(client_->Open(PipelineSpec(), 1).status()));
  uint64_t bytes = frame.data().size();
  while (reader->Read(&frame)) bytes += frame.data().size();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(bytes, 60 * kMiB);
  stop.join();
  server_->Shutdown();  // again: nothing
}

TEST_F(RpcServerTest, ShutdownEndsStreamsThatDoNotFinish) {
  config_.payload_bytes = kMiB;
  StartServer();
  grpc::ClientContext context;
  auto reader = client_->stub().GetBatches(
      &context, RpcClient::Request(Plan(), 0, 100000));
  Frame frame;
  ASSERT_TRUE(reader->Read(&frame));
  server_->Shutdown();
  while (reader->Read(&frame)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  server_.reset();
  engine_.reset();  // it may have made one more that nobody wants
  EXPECT_EQ(budget_.used(), 0);
}

// The calls of a program that was killed may stay: a forked child of it keeps
// the connection open, and reads nothing.
TEST_F(RpcServerTest, ShutdownAtOnceDoesNotWaitForStreams) {
  config_.payload_bytes = kMiB;
  options_.shutdown_grace = absl::Hours(24);
  StartServer();
  grpc::ClientContext context;
  auto reader = client_->stub().GetBatches(
      &context, RpcClient::Request(Plan(), 0, 100000));
  Frame frame;
  ASSERT_TRUE(reader->Read(&frame));
  server_->Shutdown(/*at_once=*/true);
  while (reader->Read(&frame)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

// The port of a server that has stopped answers no probe. A watchdog that
// still runs would end the process with an error.
TEST_F(RpcServerTest, AServerThatShutsDownIsNotGivenUpByItsWatchdog) {
  std::atomic<bool> given_up{false};
  options_.on_unreachable = [&](const absl::Status&) { given_up = true; };
  options_.watchdog.interval = std::chrono::milliseconds(1);
  options_.watchdog.failures = 1;
  config_.payload_bytes = kMiB;
  StartServer();
  // A few probes, of which one that succeeds arms the watchdog.
  absl::SleepFor(6 * absl::FromChrono(Watchdog::kTick));
  grpc::ClientContext context;
  auto reader = client_->stub().GetBatches(
      &context, RpcClient::Request(Plan(), 0, 100000));
  Frame frame;
  ASSERT_TRUE(reader->Read(&frame));
  server_->Shutdown();
  absl::SleepFor(6 * absl::FromChrono(Watchdog::kTick));
  EXPECT_FALSE(given_up);
  while (reader->Read(&frame)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(RpcServerTest, ATakenPortIsNamed) {
  StartServer();
  options_.listen = server_->address();
  const auto second = RpcServer::Start(options_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("port " + std::to_string(server_->port())));
}

TEST_F(RpcServerTest, OptionsAreChecked) {
  EXPECT_FALSE(RpcServer::Start(options_).ok());  // no engine
  FakeEngine engine(config_);
  options_.engine = &engine;
  options_.send_timeout = absl::ZeroDuration();
  EXPECT_EQ(RpcServer::Start(options_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::rpc
