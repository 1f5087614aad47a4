// The watchdog's probe of real servers: one that serves, one that is deaf, and
// none.

#include "server/rpc/server_probe.h"

#include <netinet/in.h>

#include <cstring>
#include <memory>
#include <optional>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/byte_budget.h"
#include "gtest/gtest.h"
#include "server/rpc/rpc_server.h"
#include "tests/testing/fake_engine.h"
#include "tests/testing/listener.h"

namespace millrace::rpc {
namespace {

std::unique_ptr<Probe> ProbeOf(int port, int* announced) {
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_storage address = {};
  std::memcpy(&address, &v4, sizeof(v4));
  return NewServerProbe(
      address, sizeof(v4), [announced](const sockaddr_storage& own) {
        *announced = ntohs(reinterpret_cast<const sockaddr_in&>(own).sin_port);
      });
}

// What the probe comes to within `time`.
std::optional<absl::Status> Result(Probe& probe, absl::Duration time) {
  const absl::Time give_up = absl::Now() + time;
  while (true) {
    if (auto result = probe.Poll()) return result;
    if (absl::Now() > give_up) return std::nullopt;
    absl::SleepFor(absl::Milliseconds(2));
  }
}

TEST(ServerProbeTest, AServerThatServesAnswers) {
  ByteBudget budget(1 << 20);
  testing::FakeEngine::Config config;
  config.budget = &budget;
  testing::FakeEngine engine(config);
  RpcServer::Options options;
  options.listen = "127.0.0.1:0";
  options.engine = &engine;
  options.budget = &budget;
  options.shutdown_grace = absl::ZeroDuration();
  auto server = RpcServer::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  for (int i = 0; i < 3; ++i) {
    int announced = 0;
    const auto probe = ProbeOf((*server)->port(), &announced);
    EXPECT_GT(announced, 0);
    const auto result = Result(*probe, absl::Seconds(30));
    ASSERT_TRUE(result.has_value());
    EXPECT_TRUE(result->ok()) << *result;
  }
}

TEST(ServerProbeTest, AServerThatDoesNotAcceptDoesNotAnswer) {
  const Listener deaf;
  ASSERT_TRUE(deaf.good());
  int announced = 0;
  const auto probe = ProbeOf(deaf.port(), &announced);
  EXPECT_FALSE(Result(*probe, absl::Milliseconds(200)).has_value());
}

TEST(ServerProbeTest, NobodyListens) {
  Listener listener;
  ASSERT_TRUE(listener.good());
  listener.Close();
  int announced = 0;
  const auto probe = ProbeOf(listener.port(), &announced);
  const auto result = Result(*probe, absl::Seconds(30));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->code(), absl::StatusCode::kUnavailable) << *result;
}

}  // namespace
}  // namespace millrace::rpc
