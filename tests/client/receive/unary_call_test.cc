// What a client says when no server gives the answer that it wants.

#include "client/receive/unary_call.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proto/byte_buffer.h"
#include "proto/error_detail.h"
#include "proto/grpc_status.h"

namespace millrace::receive {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

absl::Status Headline(const std::vector<absl::Status>& errors) {
  std::vector<ServerChannel> servers;
  for (size_t i = 0; i < errors.size(); ++i) {
    servers.push_back({});
    servers.back().address.text = "data-" + std::to_string(servers.size());
  }
  return NoAnswerError("data:7001", servers, errors);
}

absl::Status OfTheServer(absl::Status status) {
  return WithErrorDetail(std::move(status), MakeErrorDetail("read"));
}

TEST(NoAnswerErrorTest, SilenceIsCalledSo) {
  const absl::Status error =
      Headline({absl::UnavailableError("Connection refused"),
                absl::DeadlineExceededError("no answer within 5s")});
  EXPECT_TRUE(absl::IsUnavailable(error));
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("no data server answers at endpoint data:7001"),
                    HasSubstr("data-1: Connection refused"),
                    HasSubstr("data-2: no answer within 5s")));
}

TEST(AskServersTest, EndsSoonAfterItIsCancelled) {
  grpc::AsyncGenericService silent;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterAsyncGenericService(&silent);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  std::vector<ServerChannel> servers(1);
  servers[0].channel = grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                           grpc::InsecureChannelCredentials());
  CancelFlag cancelled{false};
  std::thread canceller([&cancelled] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cancelled.store(true);
  });
  const auto begun = std::chrono::steady_clock::now();
  const std::vector<absl::Status> results =
      AskServers(absl::MakeSpan(servers), "/millrace.v1.DataService/Open", "",
                 {.timeout = absl::Hours(1), .cancelled = &cancelled},
                 [](size_t, const std::string&) { return absl::OkStatus(); });
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::minutes(1));
  ASSERT_EQ(results.size(), 1);
  EXPECT_TRUE(absl::IsCancelled(results[0])) << results[0];
  canceller.join();
  server->Shutdown();
  queue->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
  }
}

// A server that is busy with other programs' requests. The sentence sent the
// user to check that it runs.
TEST(NoAnswerErrorTest, AServerThatIsConnectedIsSaidToBe) {
  grpc::AsyncGenericService silent;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterAsyncGenericService(&silent);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  std::vector<ServerChannel> servers(1);
  servers[0].address.text = "127.0.0.1:" + std::to_string(port);
  servers[0].channel = grpc::CreateChannel(servers[0].address.text,
                                           grpc::InsecureChannelCredentials());
  ASSERT_TRUE(servers[0].channel->WaitForConnected(
      std::chrono::system_clock::now() + std::chrono::seconds(60)));
  const std::vector<absl::Status> results =
      AskServers(absl::MakeSpan(servers), "/millrace.v1.DataService/Open", "",
                 {.timeout = absl::Milliseconds(100)},
                 [](size_t, const std::string&) { return absl::OkStatus(); });
  const absl::Status error = NoAnswerError("data:7001", servers, results);
  EXPECT_TRUE(absl::IsUnavailable(error));
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("is connected and has not answered"),
                    HasSubstr("no answer within 100ms"),
                    HasSubstr("millrace status --endpoint=data:7001"),
                    Not(HasSubstr("check that millrace-server runs"))));
  server->Shutdown();
  queue->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
  }
}

// Answers one of its first two calls with an empty message when the second
// comes, and leaves the other without an answer.
class AnswersOne final : public grpc::CallbackGenericService {
 public:
  explicit AnswersOne(int answered) : answered_(answered) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  int port() const { return port_; }
  int calls() const { return calls_; }

 private:
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    void Answer() {
      if (ended_.exchange(true)) return;
      bytes_ = ToByteBuffer("");
      StartWriteAndFinish(&bytes_, {}, grpc::Status::OK);
    }
    void OnCancel() override {
      if (!ended_.exchange(true)) Finish(grpc::Status::CANCELLED);
    }
    void OnDone() override { delete this; }

   private:
    std::atomic<bool> ended_{false};
    grpc::ByteBuffer bytes_;
  };
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext*) override {
    auto* const reactor = new Reactor();
    if (calls_++ == 0) {
      first_ = reactor;
    } else {
      (answered_ == 0 ? first_.load() : reactor)->Answer();
    }
    return reactor;
  }

  const int answered_;
  std::atomic<int> calls_{0};
  std::atomic<Reactor*> first_{nullptr};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// A flipped bit in the head of a frame left the server waiting for the rest of
// the request until the client's timeout.
TEST(AskServersTest, ASilentServerIsSentTheRequestOverANewConnection) {
  for (const int answered : {0, 1}) {
    // 0: the server was only busy, and answers the first request after all.
    SCOPED_TRACE(answered);
    AnswersOne server(answered);
    std::vector<ServerChannel> servers(1);
    servers[0].address.text = "127.0.0.1:" + std::to_string(server.port());
    servers[0].address.target = "ipv4:" + servers[0].address.text;
    servers[0].channel = grpc::CreateChannel(
        servers[0].address.text, grpc::InsecureChannelCredentials());
    const grpc::Channel* const first = servers[0].channel.get();
    const std::vector<absl::Status> results = AskServers(
        absl::MakeSpan(servers), "/millrace.v1.DataService/GetStatus", "",
        {.timeout = absl::Seconds(60), .silence = absl::Milliseconds(200)},
        [](size_t, const std::string&) { return absl::OkStatus(); });
    EXPECT_TRUE(results[0].ok()) << results[0];
    EXPECT_EQ(server.calls(), 2);
    EXPECT_EQ(servers[0].channel.get() == first, answered == 0);
  }
}

// Refuses each call with `status`.
class Refuses final : public grpc::CallbackGenericService {
 public:
  explicit Refuses(const absl::Status& status) : status_(ToGrpcStatus(status)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  int port() const { return port_; }
  int calls() const { return calls_; }

 private:
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    void OnDone() override { delete this; }
  };
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext*) override {
    ++calls_;
    auto* const reactor = new Reactor();
    reactor->Finish(status_);
    return reactor;
  }

  const grpc::Status status_;
  std::atomic<int> calls_{0};
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// The delay, which any peer may send, overflowed the clock: the request was
// sent again without a pause until the timeout.
TEST(AskServersTest, ADelayBeyondTheTimeoutEndsTheRequest) {
  for (const int64_t delay_ms : {int64_t{3'600'000}, INT64_MAX}) {
    SCOPED_TRACE(delay_ms);
    ErrorDetail detail = MakeErrorDetail("admission");
    detail.set_retry_delay_ms(delay_ms);
    Refuses server(
        WithErrorDetail(absl::ResourceExhaustedError("busy"), detail));
    std::vector<ServerChannel> servers(1);
    servers[0].address.text = "127.0.0.1:" + std::to_string(server.port());
    servers[0].channel = grpc::CreateChannel(
        servers[0].address.text, grpc::InsecureChannelCredentials());
    const std::vector<absl::Status> results =
        AskServers(absl::MakeSpan(servers), "/millrace.v1.DataService/Open", "",
                   {.timeout = absl::Seconds(5), .insist = true},
                   [](size_t, const std::string&) { return absl::OkStatus(); });
    EXPECT_TRUE(absl::IsResourceExhausted(results[0])) << results[0];
    EXPECT_EQ(server.calls(), 1);
  }
}

// A dataset whose file changed is refused with Unavailable, so that a client
// asks another server. The headline was "no data server answers".
TEST(NoAnswerErrorTest, AServerThatRefusesHasAnswered) {
  const absl::Status error = Headline(
      {absl::UnavailableError("Connection refused"),
       OfTheServer(absl::UnavailableError("photos.lmdb was truncated"))});
  EXPECT_TRUE(absl::IsUnavailable(error));
  EXPECT_TRUE(HasErrorDetail(error));
  EXPECT_THAT(error.message(),
              AllOf(Not(HasSubstr("no data server answers")),
                    HasSubstr("data-1: Connection refused"),
                    HasSubstr("data-2: photos.lmdb was truncated")));
}

TEST(NoAnswerErrorTest, AMistakeOfTheRequestGivesTheCode) {
  const absl::Status error = Headline(
      {OfTheServer(absl::UnavailableError("photos.lmdb was truncated")),
       OfTheServer(absl::InvalidArgumentError("batch_size is 0"))});
  EXPECT_TRUE(absl::IsInvalidArgument(error));
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("data-1: photos"), HasSubstr("data-2: batch")));
  EXPECT_TRUE(HasErrorDetail(error));
}

// It had a detail, as if a data server had refused the request.
TEST(NoAnswerErrorTest, WhatNoServerSaidHasNoDetail) {
  const absl::Status error =
      Headline({absl::UnimplementedError("no millrace-server answers there")});
  EXPECT_TRUE(absl::IsUnimplemented(error));
  EXPECT_FALSE(HasErrorDetail(error));
}

}  // namespace
}  // namespace millrace::receive
