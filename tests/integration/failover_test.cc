// Servers that die, freeze, come back, are added, cut off or slow under a
// running loader: the sequence of batches is that of an undisturbed run, sample
// by sample. tools/chaos does the same at random, over real links.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/diagnosis/server_times.h"
#include "client/prefetch/host_loader.h"
#include "client/receive/open_host_loader.h"
#include "proto/spec_text.h"
#include "tests/testing/digits.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"
#include "tests/testing/tcp_gate.h"

namespace millrace {
namespace {

using ::millrace::testing::ServerProcess;
using ::millrace::testing::TcpGate;

constexpr int kSamples = 20'000;
constexpr uint64_t kBatch = 20;
constexpr uint64_t kSteps = kSamples / kBatch;

class FailoverTest : public testing::ServiceTest {
 protected:
  static std::unique_ptr<ServerProcess> Serve(int port = 0) {
    return ServiceTest::Serve(
        {Digits(kSamples), "--threads=2", "--memory_budget=256MiB"}, port);
  }
  static HostLoaderOptions Options(const std::string& endpoint) {
    return ServiceTest::Options(endpoint, kBatch);
  }
  static cli::EpochAudit Receive(HostLoader& loader,
                                 const std::function<void()>& disturb) {
    return ReceiveEpoch(loader, kSteps, disturb);
  }

  // What an epoch is without any trouble: received once for all tests.
  static void ExpectUndisturbed(const cli::EpochAudit& audit) {
    static const cli::EpochAudit* const undisturbed = [] {
      const std::unique_ptr<ServerProcess> server = Serve();
      const auto loader = Open(Options(server->address()));
      return new cli::EpochAudit(ReceiveEpoch(*loader, kSteps));
    }();
    ExpectSameEpoch(audit, *undisturbed, kSamples);
  }
};

TEST_F(FailoverTest, AServerThatIsKilledHalfwayLosesNothing) {
  std::unique_ptr<ServerProcess> first = Serve();
  std::unique_ptr<ServerProcess> second = Serve();
  const auto loader = Open(Options(EndpointOf(*first, *second)));
  const cli::EpochAudit audit = Receive(*loader, [&] { Kill(*first); });
  ExpectUndisturbed(audit);
}

TEST_F(FailoverTest, StepsOfAFrozenServerAreAskedElsewhere) {
  std::unique_ptr<ServerProcess> first = Serve();
  std::unique_ptr<ServerProcess> second = Serve();
  HostLoaderOptions options = Options(EndpointOf(*first, *second));
  options.step_timeout = absl::Milliseconds(300);
  const auto loader = Open(options);
  const cli::EpochAudit audit =
      Receive(*loader, [&] { first->process().Signal(SIGSTOP); });
  // One after the other because they are late, or all because it is silent.
  const HostLoader::Stats stats = loader->stats();
  EXPECT_GT(stats.retried_steps + stats.hedged_steps, 0);
  first->process().Signal(SIGCONT);
  ExpectUndisturbed(audit);
}

TEST_F(FailoverTest, TheOnlyServerMayBeRestarted) {
  std::unique_ptr<ServerProcess> server = Serve();
  const auto loader = Open(Options(server->address()));
  const cli::EpochAudit audit = Receive(*loader, [&] {
    const int port = server->port();
    Kill(*server);
    server = Serve(port);
  });
  ExpectUndisturbed(audit);
}

TEST_F(FailoverTest, AServerThatComesBackIsUsedAgain) {
  std::unique_ptr<ServerProcess> first = Serve();
  std::unique_ptr<ServerProcess> second = Serve();
  HostLoaderOptions options = Options(EndpointOf(*first, *second));
  options.epochs = 0;
  const auto loader = Open(options);
  const int port = first->port();
  ASSERT_EQ(first->Stop(), 0);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(loader->Next().ok());
  first = Serve(port);
  second->process().Signal(SIGKILL);
  // Only the first is left: what comes now comes from it.
  for (int i = 0; i < 100; ++i) {
    absl::StatusOr<HostBatch> batch = loader->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
  }
}

TEST_F(FailoverTest, WhenAllServersAreGoneNextSaysSo) {
  std::unique_ptr<ServerProcess> server = Serve();
  HostLoaderOptions options = Options(server->address());
  options.next_timeout = absl::Milliseconds(700);
  const auto loader = Open(options);
  Kill(*server);
  absl::Status status;
  for (uint64_t i = 0; i < kSteps && status.ok(); ++i) {
    status = loader->Next().status();
  }
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find(server->address()), std::string::npos)
      << status;
  // The position is that of the last batch: resume from there.
  const Position position = loader->position();
  EXPECT_LT(position.step, kSteps);
  const std::unique_ptr<ServerProcess> other = Serve();
  HostLoaderOptions resumed = Options(other->address());
  resumed.start = position;
  const auto rest = Open(resumed);
  absl::StatusOr<HostBatch> batch = rest->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->position, position);
}

TEST_F(FailoverTest, AServerWithOtherDataIsLeftOut) {
  const std::string digits = Digits(kSamples + 1);
  std::unique_ptr<ServerProcess> first = Serve();
  std::unique_ptr<ServerProcess> second = Serve();
  const auto loader = Open(Options(EndpointOf(*first, *second)));
  const cli::EpochAudit audit = Receive(*loader, [&] {
    const int port = first->port();
    Kill(*first);
    first = ServiceTest::Serve({digits}, port);
  });
  ExpectUndisturbed(audit);
}

// Whose pipeline was no pipeline for those data: the job ended with
// INVALID_ARGUMENT and the advice to lower batch_size.
TEST_F(FailoverTest, AServerWithTooFewDataIsLeftOut) {
  const std::string digits = Digits(kBatch - 1);
  std::unique_ptr<ServerProcess> first = Serve();
  std::unique_ptr<ServerProcess> second = Serve();
  const auto loader = Open(Options(EndpointOf(*first, *second)));
  const cli::EpochAudit audit = Receive(*loader, [&] {
    const int port = first->port();
    Kill(*first);
    first = ServiceTest::Serve({digits}, port);
  });
  ExpectUndisturbed(audit);
  // A new job uses the server that has opened the plan.
  const auto again = Open(Options(EndpointOf(*first, *second)));
  ExpectUndisturbed(Receive(*again, [] {}));
}

// Truncation of a served file ended the server with SIGBUS.
TEST_F(FailoverTest, AServerWhoseFileIsTruncatedLosesNothingAndServesOn) {
  const std::string path = Path("digits.lmdb");
  ASSERT_TRUE(testing::WriteDigits("lmdb:" + path, kSamples).ok());
  const std::string other = "lmdb:" + Path("other.lmdb");
  ASSERT_TRUE(testing::WriteDigits(other, 5 * kBatch).ok());
  const auto first = ServiceTest::Serve(
      {"--dataset=digits=lmdb:" + path, "--dataset=other=" + other});
  const std::unique_ptr<ServerProcess> second = Serve();
  const auto loader = Open(Options(EndpointOf(*first, *second)));
  const cli::EpochAudit audit = Receive(*loader, [&] {
    EXPECT_GT(StatusOf(*first).batches_sent(), 0);
    ASSERT_EQ(truncate(path.c_str(), 0), 0);
  });
  ExpectUndisturbed(audit);

  HostLoaderOptions options = Options(first->address());
  options.open_timeout = absl::Seconds(1);
  const absl::Status refused = receive::OpenHostLoader(options).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_NE(refused.message().find(path + " was truncated"), std::string::npos)
      << refused;
  options = Options(first->address());
  options.spec.mutable_sources(0)->set_dataset("other");
  const auto others = Open(options);
  EXPECT_EQ(ReceiveEpoch(*others, 5).distinct(), 5 * kBatch);
}

TEST_F(FailoverTest, AllServersMayBeGoneForAWhile) {
  std::unique_ptr<ServerProcess> first = Serve();
  std::unique_ptr<ServerProcess> second = Serve();
  const auto loader = Open(Options(EndpointOf(*first, *second)));
  std::promise<void> received;
  std::thread repair;
  const cli::EpochAudit audit = Receive(*loader, [&] {
    const int ports[] = {first->port(), second->port()};
    Kill(*first);
    Kill(*second);
    repair = std::thread([&, ports] {
      // Not before the loader has noticed; it waits in Next() meanwhile.
      while (loader->stats().servers > 0) {
        absl::SleepFor(absl::Milliseconds(5));
      }
      first = Serve(ports[0]);
      second = Serve(ports[1]);
      // A server ends with the thread that has started it.
      received.get_future().wait();
    });
  });
  received.set_value();
  repair.join();
  ExpectUndisturbed(audit);
}

TEST_F(FailoverTest, ServersThatAllHangAreNamedAtTheDeadlineAndUsedAfterIt) {
  std::unique_ptr<ServerProcess> first = Serve();
  std::unique_ptr<ServerProcess> second = Serve();
  HostLoaderOptions options = Options(EndpointOf(*first, *second));
  options.next_timeout = absl::Milliseconds(700);
  const auto loader = Open(options);
  cli::EpochAudit audit;
  int timeouts = 0;
  for (uint64_t step = 0; step < kSteps;) {
    if (step == kSteps / 2 && timeouts == 0) {
      first->process().Signal(SIGSTOP);
      second->process().Signal(SIGSTOP);
    }
    absl::StatusOr<HostBatch> batch = loader->Next();
    if (batch.ok()) {
      ASSERT_EQ(batch->position, (Position{0, step}));
      ASSERT_TRUE(audit.Add(batch->header, batch->payload).ok());
      ++step;
      continue;
    }
    // Connected, so not Unavailable; the loader goes on after it.
    ASSERT_TRUE(absl::IsDeadlineExceeded(batch.status()) ||
                absl::IsUnavailable(batch.status()))
        << batch.status();
    ASSERT_NE(batch.status().message().find(options.endpoint),
              std::string::npos)
        << batch.status();
    ASSERT_EQ(loader->position(), (Position{0, step}));
    ASSERT_LT(++timeouts, 100);
    first->process().Signal(SIGCONT);
    second->process().Signal(SIGCONT);
  }
  EXPECT_GT(timeouts, 0);
  ExpectUndisturbed(audit);
}

TEST_F(FailoverTest, AnOnlyServerThatComesBackWithOtherDataIsRefused) {
  const std::string digits = Digits(kSamples + 1);
  std::unique_ptr<ServerProcess> server = Serve();
  const auto loader = Open(Options(server->address()));
  const int port = server->port();
  for (uint64_t step = 0; step < 10; ++step) {
    ASSERT_TRUE(loader->Next().ok());
  }
  ASSERT_EQ(server->Stop(), 0);
  const auto other = ServiceTest::Serve({digits}, port);
  // What came before the change is good and handed out, nothing after it.
  absl::Status status;
  uint64_t steps = 10;
  for (; steps < kSteps && status.ok(); ++steps) {
    status = loader->Next().status();
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find(other->address()), std::string::npos)
      << status;
  EXPECT_NE(status.message().find("the data differ"), std::string::npos)
      << status;
  EXPECT_NE(status.message().find(loader->plan().fingerprint()),
            std::string::npos)
      << status;
}

TEST_F(FailoverTest, AServerThatIsAddedLaterGetsWork) {
  std::unique_ptr<ServerProcess> first = Serve();
  std::unique_ptr<ServerProcess> second = Serve();
  const std::string endpoint = EndpointOf(*first, *second);
  const int port = second->port();
  ASSERT_EQ(second->Stop(), 0);
  HostLoaderOptions options = Options(endpoint);
  options.epochs = 0;
  const auto loader = Open(options);
  ASSERT_TRUE(loader->Next().ok());
  second = Serve(port);
  ASSERT_TRUE(Soon([&] {
    EXPECT_TRUE(loader->Next().ok());
    return StatusOf(*second).batches_sent() > 0;
  }));
}

TEST_F(FailoverTest, AServerWhoseLinkIsCutLosesNothingAndIsUsedAfterIt) {
  const std::unique_ptr<ServerProcess> first = Serve();
  const std::unique_ptr<ServerProcess> second = Serve();
  TcpGate gate(first->port());
  HostLoaderOptions options =
      Options(absl::StrCat(gate.address(), ",", second->address()));
  options.epochs = 2;
  const auto loader = Open(options);
  // The connection stays, it only carries nothing.
  cli::EpochAudit audit;
  for (uint64_t step = 0; step < kSteps; ++step) {
    if (step == kSteps / 2) gate.Cut();
    const absl::StatusOr<HostBatch> batch = loader->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    ASSERT_EQ(batch->position, (Position{0, step}));
    ASSERT_TRUE(audit.Add(batch->header, batch->payload).ok());
  }
  ExpectUndisturbed(audit);
  const HostLoader::Stats stats = loader->stats();
  EXPECT_GT(stats.retried_steps + stats.hedged_steps, 0);
  // Nobody else is left: what comes now comes over the mended link. (Beside
  // others it is asked again when it delivers, or after 30 s.)
  gate.Mend();
  Kill(*second);
  for (int i = 0; i < 100; ++i) {
    const absl::StatusOr<HostBatch> batch = loader->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
  }
}

TEST_F(FailoverTest, AServerWhoseLinkBecomesThinGetsLess) {
  const std::unique_ptr<ServerProcess> first = Serve();
  const std::unique_ptr<ServerProcess> second = Serve();
  TcpGate gate(first->port());
  const auto loader =
      Open(Options(absl::StrCat(gate.address(), ",", second->address())));
  std::vector<diagnosis::ServerTimes> before;
  const cli::EpochAudit audit = Receive(*loader, [&] {
    gate.Limit(1'000'000);  // some 60 batches a second
    before = loader->stats().by_server;
  });
  ExpectUndisturbed(audit);
  uint64_t thin = 0;
  uint64_t other = 0;
  for (const diagnosis::ServerTimes& server :
       diagnosis::Difference(loader->stats().by_server, before)) {
    (server.address == gate.address() ? thin : other) += server.batches;
  }
  EXPECT_LT(thin, other);
}

TEST_F(FailoverTest, MixedBatchesOfTwoServersAreThoseOfOne) {
  std::unique_ptr<ServerProcess> first = Serve();
  const std::unique_ptr<ServerProcess> second = Serve();
  const auto spec = ParseSpecText(
      "sources { dataset: 'digits' } batch_size: 500 seed: 3 "
      "transforms { random_crop { height: 28 width: 28 padding: 2 } } "
      "transforms { mix_up { alpha: 0.8 p: 0.5 } } "
      "transforms { cut_mix { alpha: 1 } } "
      "transforms { normalize { mean: 0.286 stddev: 0.353 } }",
      "the test");
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto bytes = [&](const std::string& endpoint, uint32_t rank,
                         const std::function<void()>& disturb) {
    HostLoaderOptions options = Options(endpoint);
    options.spec = *spec;
    options.rank = rank;
    options.world_size = 2;
    const auto loader = Open(options);
    return ReceiveBytes(*loader, loader->plan().steps_per_epoch(), disturb);
  };
  const std::string both = EndpointOf(*first, *second);
  const std::vector<std::string> rank0 = bytes(both, 0, [] {});
  const std::vector<std::string> rank1 = bytes(both, 1, [&] { Kill(*first); });
  EXPECT_EQ(rank0.size(), kSamples / 500);
  EXPECT_EQ(rank0, bytes(second->address(), 0, [] {}));
  EXPECT_EQ(rank1, bytes(second->address(), 1, [] {}));
}

}  // namespace
}  // namespace millrace
