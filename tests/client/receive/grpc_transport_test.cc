#include "client/receive/grpc_transport.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/byte_budget.h"
#include "proto/wire/version.h"
#include "server/rpc/rpc_server.h"
#include "tests/testing/fake_engine.h"

namespace millrace::receive {
namespace {

class TestServer {
 public:
  TestServer() : budget_(64 << 20), engine_({.budget = &budget_}) {
    auto server =
        rpc::RpcServer::Start({.listen = "127.0.0.1:0",
                               .engine = &engine_,
                               .budget = &budget_,
                               .shutdown_grace = absl::ZeroDuration()});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  Address address() const {
    const std::string text = absl::StrCat("127.0.0.1:", server_->port());
    return {absl::StrCat("ipv4:", text), text, text};
  }
  uint64_t batches_made() const { return engine_.batches_made(); }

 private:
  ByteBudget budget_;
  testing::FakeEngine engine_;
  std::unique_ptr<rpc::RpcServer> server_;
};

// Asks the first server that is ready for one step after the other.
class OneStepAtATime final : public prefetch::TransportEvents {
 public:
  explicit OneStepAtATime(prefetch::BatchTransport* transport)
      : transport_(transport) {}

  void OnServers(absl::Span<const prefetch::ServerState> servers) override {
    if (servers[0].ready) server_ = servers[0].id;
  }
  void OnFrame(prefetch::CallId call, wire::FrameView& frame) override {}
  void OnCallDone(prefetch::CallId call, absl::Status status) override {
    EXPECT_TRUE(status.ok()) << status;
    asked_ = false;
  }
  void OnTick() override {
    if (server_ == 0 || asked_) return;
    asked_ = true;
    ++calls_;
    transport_->StartCall(calls_, server_,
                          {.epoch = 0, .first_step = calls_, .step_count = 1});
  }

 private:
  prefetch::BatchTransport* const transport_;
  prefetch::ServerId server_ = 0;
  uint64_t calls_ = 0;
  bool asked_ = false;
};

GetBatchesRequest Request() {
  GetBatchesRequest request;
  request.set_protocol_version(wire::kProtocolVersion);
  request.mutable_resolved_spec()->add_sources()->set_dataset("d");
  request.set_plan_hash("plan-a");
  request.set_expected_fingerprint("fingerprint-a");
  request.set_world_size(1);
  return request;
}

// The second connection leads to another server here, to tell the two apart.
TEST(GrpcTransportTest, ASecondConnectionTakesItsPartOfTheCalls) {
  TestServer first;
  TestServer other;
  GrpcTransportOptions options;
  options.hosts = *ParseEndpoint(first.address().text);
  options.servers.push_back(MakeServerChannel(first.address()));
  EXPECT_EQ(options.servers[0].second, nullptr);
  options.servers[0].second = MakeServerChannel(other.address()).channel;
  options.request = Request();
  auto transport = NewGrpcTransport(std::move(options));
  OneStepAtATime events(transport.get());
  transport->Start(&events);
  const absl::Time give_up = absl::Now() + absl::Seconds(60);
  while ((first.batches_made() < 2 || other.batches_made() < 2) &&
         absl::Now() < give_up) {
    transport->Wake();
    absl::SleepFor(absl::Milliseconds(2));
  }
  transport->Stop();
  EXPECT_GE(first.batches_made(), 2u);
  EXPECT_GE(other.batches_made(), 2u);
}

// The first connection leads to another server here, to tell it from the new
// one.
TEST(GrpcTransportTest, CallsAfterReconnectGoOverANewConnection) {
  TestServer at_the_address;
  TestServer other;
  GrpcTransportOptions options;
  options.hosts = *ParseEndpoint(at_the_address.address().text);
  options.servers.push_back(MakeServerChannel(other.address()));
  options.servers[0].address = at_the_address.address();
  options.request = Request();
  auto transport = NewGrpcTransport(std::move(options));
  class ReconnectOnce final : public prefetch::TransportEvents {
   public:
    explicit ReconnectOnce(prefetch::BatchTransport* transport)
        : transport_(transport), inner_(transport) {}
    void OnServers(absl::Span<const prefetch::ServerState> servers) override {
      id_ = servers[0].id;
      ready_ = servers[0].ready;
      inner_.OnServers(servers);
    }
    void OnFrame(prefetch::CallId call, wire::FrameView& frame) override {
      inner_.OnFrame(call, frame);
    }
    void OnCallDone(prefetch::CallId call, absl::Status status) override {
      inner_.OnCallDone(call, std::move(status));
      if (++done_ == 2) {
        transport_->Reconnect(id_);
        transport_->Reconnect(id_ + 1);  // unknown
        reconnected_ = true;
        ready_ = false;
      }
    }
    void OnTick() override {
      // A call before would wait for the connection: also well.
      if (!reconnected_ || ready_) inner_.OnTick();
    }

   private:
    prefetch::BatchTransport* const transport_;
    OneStepAtATime inner_;
    prefetch::ServerId id_ = 0;
    int done_ = 0;
    bool reconnected_ = false;
    bool ready_ = false;
  } events(transport.get());
  transport->Start(&events);
  const absl::Time give_up = absl::Now() + absl::Seconds(60);
  while (at_the_address.batches_made() < 2 && absl::Now() < give_up) {
    transport->Wake();
    absl::SleepFor(absl::Milliseconds(2));
  }
  transport->Stop();
  EXPECT_EQ(other.batches_made(), 2u);
  EXPECT_GE(at_the_address.batches_made(), 2u);
}

TEST(GrpcTransportTest, FarServersOfLargeBatchesHaveASecondConnection) {
  Address address = {"ipv4:127.0.0.1:1", "a:1", "a:1"};
  const auto second = [&address](uint64_t bytes) {
    return MakeServerChannel(address, bytes).second != nullptr;
  };
  EXPECT_FALSE(second(kLargeBatchBytes)) << "not measured";
  address.round_trip = kFarRoundTrip;
  EXPECT_TRUE(second(kLargeBatchBytes));
  EXPECT_FALSE(second(kLargeBatchBytes - 1));
  EXPECT_FALSE(second(0));
  address.round_trip = kFarRoundTrip - absl::Microseconds(1);
  EXPECT_FALSE(second(kLargeBatchBytes));
}

}  // namespace
}  // namespace millrace::receive
