#include "tests/integration/digits_service.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/receive/server_queries.h"
#include "tests/testing/digits.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {

DigitsService::DigitsService(int samples, std::vector<std::string> flags)
    : samples_(samples), flags_(std::move(flags)) {
  const std::string uri = "lmdb:" + NewTempDir() + "/digits.lmdb";
  const absl::Status written = WriteDigits(uri, samples);
  EXPECT_TRUE(written.ok()) << written;
  flags_.insert(flags_.begin(), "--dataset=digits=" + uri);
}

std::unique_ptr<ServerProcess> DigitsService::Serve(
    const std::vector<std::string>& more_flags, int port) const {
  std::vector<std::string> flags = flags_;
  flags.insert(flags.end(), more_flags.begin(), more_flags.end());
  auto server = ServerProcess::Start(flags, port);
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

HostLoaderOptions DigitsService::Options(const std::string& endpoint,
                                         uint64_t batch_size) const {
  HostLoaderOptions options;
  options.endpoint = endpoint;
  options.spec.set_preset("mnist");
  options.spec.add_sources()->set_dataset("digits");
  options.spec.set_batch_size(batch_size);
  options.spec.set_seed(11);
  options.window = 16;
  options.verify_payload = true;
  return options;
}

std::string EndpointOf(const ServerProcess& first,
                       const ServerProcess& second) {
  return absl::StrCat(first.address(), ",", second.address());
}

void Kill(ServerProcess& server) {
  server.process().Signal(SIGKILL);
  server.process().Wait();
}

GetStatusResponse StatusOf(const ServerProcess& server) {
  const auto servers = GetServerStatus(server.address());
  EXPECT_TRUE(servers.ok()) << servers.status();
  EXPECT_TRUE(servers->front().status.ok()) << servers->front().status.status();
  return *servers->front().status;
}

bool Soon(const std::function<bool()>& condition) {
  const absl::Time give_up = absl::Now() + absl::Seconds(10);
  while (!condition()) {
    if (absl::Now() > give_up) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

EpochAudit ReceiveEpoch(HostLoader& loader, uint64_t steps,
                        const std::function<void()>& disturb) {
  EpochAudit audit;
  for (uint64_t step = 0; step < steps; ++step) {
    if (step == steps / 2) disturb();
    const absl::StatusOr<HostBatch> batch = loader.Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok()) return audit;
    EXPECT_EQ(batch->position, (Position{0, step}));
    const absl::Status added = audit.Add(batch->header, batch->payload);
    EXPECT_TRUE(added.ok()) << added;
  }
  EXPECT_TRUE(absl::IsOutOfRange(loader.Next().status()));
  return audit;
}

void ExpectSameEpoch(const EpochAudit& audit, const EpochAudit& expected,
                     uint64_t samples) {
  EXPECT_EQ(audit.samples(), samples);
  EXPECT_EQ(audit.distinct(), samples);
  EXPECT_EQ(audit.order_digest(), expected.order_digest());
  EXPECT_EQ(audit.content_digest(), expected.content_digest());
}

std::string BytesOf(const HostBatch& batch) {
  return std::string(batch.payload.begin(), batch.payload.end());
}

}  // namespace millrace::testing
