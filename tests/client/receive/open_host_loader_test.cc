// The loader over real gRPC on the loopback, against data services over a fake
// engine in the same process.

#include "client/receive/open_host_loader.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/receive/server_queries.h"
#include "common/byte_budget.h"
#include "proto/byte_buffer.h"
#include "proto/data_service.grpc.pb.h"
#include "proto/error_detail.h"
#include "proto/wire/message_digest.h"
#include "proto/wire/version.h"
#include "server/rpc/rpc_server.h"
#include "tests/testing/fake_engine.h"
#include "tests/testing/listener.h"
#include "tests/testing/reset_server.h"
#include "tests/testing/tcp_gate.h"

namespace millrace::receive {
namespace {

using ::millrace::testing::FakeEngine;
using ::millrace::testing::FirstWrongByte;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

// A data server within the test.
class TestServer {
 public:
  explicit TestServer(
      const std::function<void(FakeEngine::Config&)>& configure = nullptr,
      const std::string& listen = "127.0.0.1:0")
      : budget_(256 * kMiB) {
    FakeEngine::Config config;
    config.budget = &budget_;
    if (configure) configure(config);
    engine_ = std::make_unique<FakeEngine>(config);
    rpc::RpcServer::Options options;
    options.listen = listen;
    options.engine = engine_.get();
    options.budget = &budget_;
    options.shutdown_grace = absl::ZeroDuration();
    auto server = rpc::RpcServer::Start(options);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  int port() const { return server_->port(); }
  std::string address() const { return absl::StrCat("127.0.0.1:", port()); }
  FakeEngine& engine() { return *engine_; }
  ByteBudget& budget() { return budget_; }
  void Stop() { server_.reset(); }

 private:
  ByteBudget budget_;
  std::unique_ptr<FakeEngine> engine_;
  std::unique_ptr<rpc::RpcServer> server_;
};

// Answers Open and ListDatasets with bytes that are no message, or as `answer`
// says of the request and the number of answers before.
class GarbageServer final
    : private v1::DataService::WithRawCallbackMethod_Open<
          v1::DataService::WithRawCallbackMethod_ListDatasets<
              v1::DataService::Service>> {
 public:
  using Answerer = std::function<std::string(const std::string&, int)>;
  explicit GarbageServer(Answerer answer = [](const std::string&,
                                              int) { return "\xff\xff\xff"; })
      : answer_with_(std::move(answer)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  int answers() const { return answers_; }

 private:
  grpc::ServerUnaryReactor* Open(grpc::CallbackServerContext* context,
                                 const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override {
    return Answer(context, request, response);
  }
  grpc::ServerUnaryReactor* ListDatasets(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override {
    return Answer(context, request, response);
  }
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) {
    *response = ToByteBuffer(answer_with_(ToString(*request), answers_++));
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  const Answerer answer_with_;
  std::atomic<int> answers_{0};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// Ends every call as gRPC or a proxy does: without the ErrorDetail that a data
// server's answers have. `open`, where it is set, is what it answers Open.
class ProxyServer final : private grpc::CallbackGenericService {
 public:
  explicit ProxyServer(grpc::StatusCode code) : code_(code) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
  }
  ~ProxyServer() override {
    server_->Shutdown();
    server_->Wait();
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  int batch_calls() const { return batch_calls_; }
  int calls() const { return calls_; }

 private:
  class Refusal final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Refusal(const grpc::Status& status) { Finish(status); }
    void OnDone() override { delete this; }
  };

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    ++calls_;
    if (context->method() == "/millrace.v1.DataService/GetBatches") {
      ++batch_calls_;
    }
    return new Refusal(grpc::Status(code_, "the upstream is gone"));
  }

  const grpc::StatusCode code_;
  std::atomic<int> calls_{0};
  std::atomic<int> batch_calls_{0};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// An address at which nobody listens.
std::string DeadAddress() {
  const TestServer server;
  return server.address();
}

HostLoaderOptions Options(const std::vector<std::string>& addresses) {
  HostLoaderOptions options;
  options.endpoint = absl::StrJoin(addresses, ",");
  options.spec.add_sources()->set_dataset("d");
  options.window = 8;
  return options;
}

void ExpectBatch(HostLoader& loader, Position position, uint32_t rank = 0) {
  absl::StatusOr<HostBatch> batch = loader.Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  ASSERT_EQ(batch->position, position);
  ASSERT_EQ(batch->header.rank(), rank);
  ASSERT_EQ(FirstWrongByte(batch->payload.data(), batch->payload.size(),
                           position.epoch, position.step, rank),
            batch->payload.size())
      << "step " << position.step;
}

TEST(HostLoaderTest, DeliversTheBytesOfEveryStepInOrder) {
  // One byte, less than a frame, exactly one, and several with a rest.
  for (const uint64_t bytes :
       {uint64_t{1}, uint64_t{50'000}, wire::kFrameDataBytes, 3 * kMiB + 77}) {
    SCOPED_TRACE(bytes);
    TestServer server([bytes](FakeEngine::Config& config) {
      config.payload_bytes = bytes;
      config.steps_per_epoch = 23;
    });
    HostLoaderOptions options = Options({server.address()});
    options.epochs = 2;
    options.world_size = 2;
    options.rank = 1;
    auto loader = OpenHostLoader(options);
    ASSERT_TRUE(loader.ok()) << loader.status();
    for (uint64_t epoch = 0; epoch < 2; ++epoch) {
      for (uint64_t step = 0; step < 23; ++step) {
        ExpectBatch(**loader, {epoch, step}, 1);
      }
    }
    EXPECT_TRUE(absl::IsOutOfRange((*loader)->Next().status()));
    EXPECT_GT((*loader)->stats().first_batch_seconds, 0);
  }
}

void SurviveAServerThatStopsHalfway(uint64_t payload_bytes) {
  const auto configure = [payload_bytes](FakeEngine::Config& config) {
    config.payload_bytes = payload_bytes;
    config.steps_per_epoch = 200;
  };
  TestServer first(configure);
  TestServer second(configure);
  auto loader = OpenHostLoader(Options({first.address(), second.address()}));
  ASSERT_TRUE(loader.ok()) << loader.status();
  for (uint64_t step = 0; step < 200; ++step) {
    ExpectBatch(**loader, {0, step});
    if (step == 60) {
      EXPECT_GT(first.engine().batches_made(), 0);
      EXPECT_GT(second.engine().batches_made(), 0);
      first.Stop();
    }
  }
  EXPECT_TRUE(absl::IsOutOfRange((*loader)->Next().status()));
}

TEST(HostLoaderTest, SurvivesAServerThatStopsHalfway) {
  SurviveAServerThatStopsHalfway(100'000);
}

// Over the channels of large batches from a near server.
TEST(HostLoaderTest, SurvivesAServerOfLargeBatchesThatStopsHalfway) {
  SurviveAServerThatStopsHalfway(300'000);
}

TEST(HostLoaderTest, GoesOnWhenTheOnlyServerIsRestarted) {
  const auto configure = [](FakeEngine::Config& config) {
    config.steps_per_epoch = 100;
  };
  auto server = std::make_unique<TestServer>(configure);
  const std::string address = server->address();
  auto loader = OpenHostLoader(Options({address}));
  ASSERT_TRUE(loader.ok()) << loader.status();
  for (uint64_t step = 0; step < 50; ++step) ExpectBatch(**loader, {0, step});
  server.reset();
  server = std::make_unique<TestServer>(configure, address);
  for (uint64_t step = 50; step < 100; ++step) ExpectBatch(**loader, {0, step});
}

TEST(HostLoaderTest, UsesTheServersThatAnswerAtOpen) {
  TestServer server;
  const Listener mute;
  ASSERT_TRUE(mute.good());
  ::testing::internal::CaptureStderr();
  auto loader = OpenHostLoader(
      Options({DeadAddress(), mute.address(), server.address()}));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr(absl::StrCat(mute.address(),
                                     " did not open the plan: no answer within "
                                     "250ms after another server answered")));
  ASSERT_TRUE(loader.ok()) << loader.status();
  for (uint64_t step = 0; step < 20; ++step) ExpectBatch(**loader, {0, step});
  EXPECT_EQ((*loader)->stats().servers, 1);
}

TEST(HostLoaderTest, LeavesOutTheServerThatAnswersOpenWithGarbage) {
  TestServer server;
  GarbageServer garbage;
  ::testing::internal::CaptureStderr();
  auto loader = OpenHostLoader(Options({garbage.address(), server.address()}));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr(absl::StrCat(garbage.address(),
                                     " did not open the plan: it sent an "
                                     "answer that is not a message")));
  ASSERT_TRUE(loader.ok()) << loader.status();
  for (uint64_t step = 0; step < 20; ++step) ExpectBatch(**loader, {0, step});

  const int answers = garbage.answers();
  const absl::Status alone =
      OpenHostLoader(Options({garbage.address()})).status();
  EXPECT_TRUE(absl::IsDataLoss(alone)) << alone;
  EXPECT_THAT(alone.message(), HasSubstr(garbage.address()));
  EXPECT_EQ(garbage.answers() - answers, 2) << "one more try";
}

// As a server answers the bytes `request`.
std::string OpenAnswer(const std::string& request, OpenResponse plan) {
  plan.clear_answer_xxh3();
  return wire::WithDigest(plan.SerializeAsString(), wire::AnswerSeed(request));
}

// A flipped bit of the plan's hash looked like a server with other data: two
// servers "do not serve the same plan", and the job ended.
TEST(HostLoaderTest, AnAnswerToOpenThatWasDamagedIsNoOtherPlan) {
  TestServer server;
  auto whole = OpenHostLoader(Options({server.address()}));
  ASSERT_TRUE(whole.ok()) << whole.status();
  const OpenResponse plan = (*whole)->plan();
  const auto damaged = [&plan](const std::string& request) {
    std::string bytes = OpenAnswer(request, plan);
    bytes[bytes.find(plan.plan_hash())] ^= 1;
    return bytes;
  };
  {
    GarbageServer always(
        [&](const std::string& request, int) { return damaged(request); });
    ::testing::internal::CaptureStderr();
    auto loader = OpenHostLoader(Options({always.address(), server.address()}));
    const std::string log = ::testing::internal::GetCapturedStderr();
    ASSERT_TRUE(loader.ok()) << loader.status();
    EXPECT_EQ((*loader)->plan().plan_hash(), plan.plan_hash());
    EXPECT_THAT(log, AllOf(HasSubstr(always.address()),
                           HasSubstr("damaged on the way")));
    for (uint64_t step = 0; step < 20; ++step) ExpectBatch(**loader, {0, step});
  }
  {
    GarbageServer once([&](const std::string& request, int before) {
      return before == 0 ? damaged(request) : OpenAnswer(request, plan);
    });
    EXPECT_TRUE(OpenHostLoader(Options({once.address()})).ok());
    EXPECT_EQ(once.answers(), 2);
  }
}

// A flipped bit of the seed in the request gave a good answer for other
// batches.
TEST(HostLoaderTest, AnAnswerToARequestThatWasDamagedIsRefused) {
  TestServer server;
  auto whole = OpenHostLoader(Options({server.address()}));
  ASSERT_TRUE(whole.ok()) << whole.status();
  GarbageServer misled([&](std::string request, int) {
    request.back() ^= 1;
    return OpenAnswer(request, (*whole)->plan());
  });
  const absl::Status status =
      OpenHostLoader(Options({misled.address()})).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("damaged on the way"));
}

// Codes 1 and 2 of HTTP/2 are INTERNAL, 11 is RESOURCE_EXHAUSTED: the job ended
// with them, although the other server was healthy.
TEST(HostLoaderTest, AStreamThatAProxyResetsIsAskedOfAnotherServer) {
  for (const uint32_t code : {0, 1, 2, 3, 7, 8, 11, 12}) {
    SCOPED_TRACE(code);
    TestServer server;
    testing::ResetServer resetting(code);
    auto loader =
        OpenHostLoader(Options({resetting.address(), server.address()}));
    ASSERT_TRUE(loader.ok()) << loader.status();
    const uint64_t opens = resetting.resets();
    for (uint64_t step = 0; step < 50; ++step) ExpectBatch(**loader, {0, step});
    EXPECT_GT(resetting.resets(), opens) << "it was asked for no batch";
    EXPECT_GT((*loader)->stats().retried_steps, 0);
  }
}

TEST(HostLoaderTest, AStatusThatIsNotTheServersIsAskedOfAnotherServer) {
  for (int code = 1; code <= 16; ++code) {
    SCOPED_TRACE(code);
    TestServer server;
    ProxyServer proxy(static_cast<grpc::StatusCode>(code));
    auto loader = OpenHostLoader(Options({proxy.address(), server.address()}));
    ASSERT_TRUE(loader.ok()) << loader.status();
    for (uint64_t step = 0; step < 50; ++step) ExpectBatch(**loader, {0, step});
    EXPECT_GT(proxy.batch_calls(), 0) << "it was asked for no batch";
    EXPECT_GT((*loader)->stats().retried_steps, 0);
  }
}

TEST(HostLoaderTest, AProxyWithoutAServerIsAskedUntilTheTimeout) {
  ProxyServer proxy(grpc::StatusCode::INTERNAL);
  HostLoaderOptions options = Options({proxy.address()});
  options.open_timeout = absl::Seconds(1);
  const absl::Status status = OpenHostLoader(options).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), AllOf(HasSubstr(proxy.address()),
                                      HasSubstr("the upstream is gone")));
  EXPECT_GT(proxy.calls(), 1);
}

TEST(HostLoaderTest, AServerOfAnotherKindIsSaidAtOnce) {
  ProxyServer other(grpc::StatusCode::UNIMPLEMENTED);
  const absl::Status status =
      OpenHostLoader(Options({other.address()})).status();
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(other.address()), HasSubstr("no millrace-server"),
                    HasSubstr("the second connection failed, too"),
                    HasSubstr("the link to it damages bytes")));
  EXPECT_EQ(other.calls(), 2) << "once over a new connection";
}

TEST(HostLoaderTest, ARequestThatIsTooLargeIsSaidAtOnce) {
  TestServer server;
  HostLoaderOptions options = Options({server.address()});
  options.spec.mutable_sources(0)->set_dataset(std::string(300'000, 'd'));
  const absl::Status status = OpenHostLoader(options).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("too large for the server"));
}

TEST(HostLoaderTest, NamesEachServerThatDoesNotAnswerAndWhy) {
  const Listener mute;
  ASSERT_TRUE(mute.good());
  const std::string dead = DeadAddress();
  HostLoaderOptions options = Options({dead, mute.address()});
  options.open_timeout = absl::Seconds(1);
  const absl::Status status = OpenHostLoader(options).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(absl::StrCat(dead, ": Connection refused")),
                    HasSubstr(mute.address())));
}

TEST(HostLoaderTest, PassesOnWhatTheServerSaysAgainstTheSpec) {
  TestServer server([](FakeEngine::Config& config) {
    ErrorDetail detail = MakeErrorDetail("plan");
    detail.set_dataset("d");
    config.open_status =
        WithErrorDetail(absl::NotFoundError("no dataset `d`"), detail);
  });
  const absl::Status status =
      OpenHostLoader(Options({server.address()})).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("no dataset `d`"));
  EXPECT_EQ(GetErrorDetail(status).stage(), "plan");
}

TEST(HostLoaderTest, RefusesAWorldThatDoesNotDivideTheBatch) {
  TestServer server;
  HostLoaderOptions options = Options({server.address()});
  options.world_size = 9;
  EXPECT_TRUE(absl::IsInvalidArgument(OpenHostLoader(options).status()));
}

TEST(HostLoaderTest, AnErrorInTheStreamComesAfterTheBatchesBeforeIt) {
  TestServer server([](FakeEngine::Config& config) {
    config.fail_at_step = 2;
    ErrorDetail detail = MakeErrorDetail("decode");
    detail.set_shard("part-1");
    detail.set_row(17);
    config.fail_status =
        WithErrorDetail(absl::DataLossError("not an image"), detail);
  });
  auto loader = OpenHostLoader(Options({server.address()}));
  ASSERT_TRUE(loader.ok()) << loader.status();
  ExpectBatch(**loader, {0, 0});
  ExpectBatch(**loader, {0, 1});
  const absl::Status status = (*loader)->Next().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("not an image"));
  EXPECT_EQ(GetErrorDetail(status).row(), 17);
  EXPECT_EQ((*loader)->position(), (Position{0, 2}));
}

TEST(HostLoaderTest, RefusesServersOfDifferentPlans) {
  TestServer first;
  TestServer second(
      [](FakeEngine::Config& config) { config.fingerprint = "other"; });
  const absl::Status status =
      OpenHostLoader(Options({first.address(), second.address()})).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(first.address()), HasSubstr(second.address()),
                    HasSubstr("other")));
}

TEST(HostLoaderTest, LeavesOutTheServerThatIsAlone) {
  TestServer first;
  TestServer second;
  TestServer odd(
      [](FakeEngine::Config& config) { config.fingerprint = "other"; });
  auto loader = OpenHostLoader(
      Options({first.address(), odd.address(), second.address()}));
  ASSERT_TRUE(loader.ok()) << loader.status();
  for (uint64_t step = 0; step < 50; ++step) ExpectBatch(**loader, {0, step});
  EXPECT_EQ(odd.engine().batches_made(), 0);
}

// Batches of two libjpegs are never mixed, and the log says why a server is
// left out.
TEST(HostLoaderTest, AServerWithOtherImageDecodersIsLeftOutByThatName) {
  TestServer first;
  TestServer second;
  TestServer odd([](FakeEngine::Config& config) {
    config.plan_hash = "plan-b";
    config.decoder_digest = "decoders-b";
  });
  ::testing::internal::CaptureStderr();
  {
    auto loader = OpenHostLoader(
        Options({odd.address(), first.address(), second.address()}));
    ASSERT_TRUE(loader.ok()) << loader.status();
    for (uint64_t step = 0; step < 30; ++step) ExpectBatch(**loader, {0, step});
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("the image decoders differ"));
  EXPECT_THAT(log, HasSubstr("decoders-a"));
  EXPECT_THAT(log, HasSubstr("decoders-b"));
  EXPECT_EQ(odd.engine().batches_made(), 0);
}

TEST(HostLoaderTest, RefusesAnotherPlanThanTheCheckpoints) {
  TestServer server;
  HostLoaderOptions options = Options({server.address()});
  options.expected_fingerprint = "of the checkpoint";
  absl::Status status = OpenHostLoader(options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), AllOf(HasSubstr("of the checkpoint"),
                                      HasSubstr("fingerprint-a")));
  options.expected_fingerprint = "";
  options.expected_plan_hash = "other";
  status = OpenHostLoader(options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  options.expected_plan_hash = "plan-a";
  options.expected_fingerprint = "fingerprint-a";
  EXPECT_TRUE(OpenHostLoader(options).ok());
}

TEST(HostLoaderTest, ASlowConsumerIsNotServedBeyondItsWindow) {
  TestServer server([](FakeEngine::Config& config) {
    config.payload_bytes = kMiB;
    config.steps_per_epoch = 1000;
  });
  auto loader = OpenHostLoader(Options({server.address()}));
  ASSERT_TRUE(loader.ok()) << loader.status();
  for (uint64_t step = 0; step < 40; ++step) {
    ExpectBatch(**loader, {0, step});
    EXPECT_LE(server.engine().batches_made(), step + 1 + (*loader)->window());
    EXPECT_LE(server.budget().peak(), (*loader)->window() * kMiB);
  }
}

TEST(HostLoaderTest, SeveralLoadersLiveInOneProcess) {
  TestServer server;
  std::vector<std::unique_ptr<HostLoader>> loaders;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    HostLoaderOptions options = Options({server.address()});
    options.rank = rank;
    options.world_size = 4;
    auto loader = OpenHostLoader(options);
    ASSERT_TRUE(loader.ok()) << loader.status();
    loaders.push_back(*std::move(loader));
  }
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      for (uint64_t step = 0; step < 100; ++step) {
        ExpectBatch(*loaders[rank], {0, step}, rank);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Threads of this process that carry the name of the receive thread.
int ReceiveThreads() {
  int count = 0;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* entry = readdir(tasks)) {
    std::ifstream file(
        absl::StrCat("/proc/self/task/", entry->d_name, "/comm"));
    std::string name;
    std::getline(file, name);
    count += name == "mr-receive" ? 1 : 0;
  }
  closedir(tasks);
  return count;
}

TEST(HostLoaderTest, CloseFromAnotherThreadEndsNextAndLeavesNoThread) {
  // The second one is at a step that never comes.
  TestServer server(
      [](FakeEngine::Config& config) { config.payload_bytes = 1000; });
  for (int round = 0; round < 10; ++round) {
    auto loader = OpenHostLoader(Options({server.address()}));
    ASSERT_TRUE(loader.ok()) << loader.status();
    std::atomic<int> taken{0};
    std::thread consumer([&] {
      while (true) {
        absl::StatusOr<HostBatch> batch = (*loader)->Next();
        if (!batch.ok()) {
          EXPECT_TRUE(absl::IsCancelled(batch.status())) << batch.status();
          return;
        }
        ++taken;
      }
    });
    while (taken < 3 * round) std::this_thread::yield();
    EXPECT_GE(ReceiveThreads(), 1);
    (*loader)->Close();
    (*loader)->Close();
    consumer.join();
    EXPECT_EQ(ReceiveThreads(), 0);
  }
}

TEST(HostLoaderTest, AllSlotsHeldIsSaid) {
  TestServer server;
  HostLoaderOptions options = Options({server.address()});
  options.window = 2;
  options.next_timeout = absl::Milliseconds(50);
  auto loader = OpenHostLoader(options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  auto first = (*loader)->Next();
  auto second = (*loader)->Next();
  ASSERT_TRUE(first.ok() && second.ok());
  const absl::Status status = (*loader)->Next().status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("all 2 slots are held"));
  first = absl::CancelledError();
  ExpectBatch(**loader, {0, 2});
}

TEST(ServerQueriesTest, StatusNamesEveryServerAlsoThoseThatAreSilent) {
  TestServer server;
  const std::string dead = DeadAddress();
  auto statuses = GetServerStatus(absl::StrCat(server.address(), ",", dead));
  ASSERT_TRUE(statuses.ok()) << statuses.status();
  ASSERT_EQ(statuses->size(), 2);
  EXPECT_EQ((*statuses)[0].address, server.address());
  EXPECT_TRUE((*statuses)[0].status.ok());
  EXPECT_EQ((*statuses)[1].address, dead);
  EXPECT_TRUE(absl::IsUnavailable((*statuses)[1].status.status()));
}

TEST(ServerQueriesTest, ADamagedAnswerIsAskedOfTheOthers) {
  GarbageServer garbage;
  TestServer server;
  // The damaged answer comes first: the other one is cut off for a moment.
  testing::TcpGate gate(server.port());
  gate.Cut();
  std::thread mend([&] {
    while (garbage.answers() == 0) std::this_thread::yield();
    gate.Mend();
  });
  auto datasets =
      ListDatasets(absl::StrCat(garbage.address(), ",", gate.address()));
  mend.join();
  ASSERT_TRUE(datasets.ok()) << datasets.status();
  EXPECT_TRUE(datasets->empty());
}

// One bit of the method's name that flips on the way. The program ended with
// "no millrace-server answers there".
TEST(ServerQueriesTest, ADamagedMethodIsSentAgainOverANewConnection) {
  TestServer server;
  testing::TcpGate gate(server.port());
  gate.Damage("DataService/ListDatasets", 1);
  ::testing::internal::CaptureStderr();
  const auto datasets = ListDatasets(gate.address());
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(datasets.ok()) << datasets.status();
  EXPECT_EQ(gate.damages(), 1);
  EXPECT_THAT(log, AllOf(HasSubstr("server " + gate.address()),
                         HasSubstr("probably damaged on the way"),
                         HasSubstr("over a new connection")));
}

TEST(ServerQueriesTest, AnUnknownDatasetIsNotFound) {
  TestServer server;
  const absl::Status status =
      DescribeDataset(server.address(), "photos").status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("photos"));
}

}  // namespace
}  // namespace millrace::receive
