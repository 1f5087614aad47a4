// Servers that die, freeze and come back under a running loader: the sequence
// of batches is that of an undisturbed run, sample by sample.

#include <gtest/gtest.h>
#include <signal.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/digest.h"
#include "client/prefetch/host_loader.h"
#include "tests/testing/digits.h"
#include "tests/testing/server_process.h"
#include "tests/testing/subprocess.h"

namespace millrace {
namespace {

using ::millrace::testing::NewTempDir;
using ::millrace::testing::ServerProcess;

constexpr int kSamples = 20'000;
constexpr uint64_t kBatch = 20;
constexpr uint64_t kSteps = kSamples / kBatch;

class FailoverTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string uri = "lmdb:" + NewTempDir() + "/digits.lmdb";
    ASSERT_TRUE(testing::WriteDigits(uri, kSamples).ok());
    flag_ = new std::string("--dataset=digits=" + uri);
  }
  static void TearDownTestSuite() { delete flag_; }

  static std::unique_ptr<ServerProcess> Serve(int port = 0) {
    auto server = ServerProcess::Start(
        {*flag_, "--threads=2", "--memory_budget=256MiB"}, port);
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }

  static HostLoaderOptions Options(const std::string& endpoint) {
    HostLoaderOptions options;
    options.endpoint = endpoint;
    options.spec.set_preset("mnist");
    options.spec.add_sources()->set_dataset("digits");
    options.spec.set_batch_size(kBatch);
    options.spec.set_seed(11);
    options.window = 16;
    options.verify_payload = true;
    return options;
  }

  // Receives an epoch and calls `disturb` at the half of it.
  static EpochAudit Receive(HostLoader& loader,
                            const std::function<void()>& disturb) {
    EpochAudit audit;
    for (uint64_t step = 0; step < kSteps; ++step) {
      if (step == kSteps / 2) disturb();
      absl::StatusOr<HostBatch> batch = loader.Next();
      EXPECT_TRUE(batch.ok()) << batch.status();
      if (!batch.ok()) return audit;
      EXPECT_EQ(batch->position, (Position{0, step}));
      EXPECT_TRUE(audit.Add(batch->header, batch->payload).ok());
    }
    EXPECT_TRUE(absl::IsOutOfRange(loader.Next().status()));
    return audit;
  }

  static void ExpectUndisturbed(const EpochAudit& audit) {
    const std::unique_ptr<ServerProcess> server = Serve();
    auto loader = OpenHostLoader(Options(server->address()));
    ASSERT_TRUE(loader.ok()) << loader.status();
    const EpochAudit expected = Receive(**loader, [] {});
    EXPECT_EQ(audit.samples(), kSamples);
    EXPECT_EQ(audit.distinct(), kSamples);
    EXPECT_EQ(audit.order_digest(), expected.order_digest());
    EXPECT_EQ(audit.content_digest(), expected.content_digest());
  }

  static std::string* flag_;
};

std::string* FailoverTest::flag_ = nullptr;

TEST_F(FailoverTest, AServerThatIsKilledHalfwayLosesNothing) {
  std::unique_ptr<ServerProcess> first = Serve();
  std::unique_ptr<ServerProcess> second = Serve();
  auto loader = OpenHostLoader(
      Options(absl::StrCat(first->address(), ",", second->address())));
  ASSERT_TRUE(loader.ok()) << loader.status();
  const EpochAudit audit = Receive(**loader, [&] {
    first->process().Signal(SIGKILL);
    first->process().Wait();
  });
  ExpectUndisturbed(audit);
}

TEST_F(FailoverTest, StepsOfAFrozenServerAreAskedElsewhere) {
  std::unique_ptr<ServerProcess> first = Serve();
  std::unique_ptr<ServerProcess> second = Serve();
  HostLoaderOptions options =
      Options(absl::StrCat(first->address(), ",", second->address()));
  options.step_timeout = absl::Milliseconds(300);
  auto loader = OpenHostLoader(options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  const EpochAudit audit =
      Receive(**loader, [&] { first->process().Signal(SIGSTOP); });
  // One after the other because they are late, or all because it is silent.
  const HostLoader::Stats stats = (*loader)->stats();
  EXPECT_GT(stats.retried_steps + stats.hedged_steps, 0);
  first->process().Signal(SIGCONT);
  ExpectUndisturbed(audit);
}

TEST_F(FailoverTest, TheOnlyServerMayBeRestarted) {
  std::unique_ptr<ServerProcess> server = Serve();
  auto loader = OpenHostLoader(Options(server->address()));
  ASSERT_TRUE(loader.ok()) << loader.status();
  const EpochAudit audit = Receive(**loader, [&] {
    const int port = server->port();
    server->process().Signal(SIGKILL);
    server->process().Wait();
    server = Serve(port);
  });
  ExpectUndisturbed(audit);
}

TEST_F(FailoverTest, AServerThatComesBackIsUsedAgain) {
  std::unique_ptr<ServerProcess> first = Serve();
  std::unique_ptr<ServerProcess> second = Serve();
  HostLoaderOptions options =
      Options(absl::StrCat(first->address(), ",", second->address()));
  options.epochs = 0;
  auto loader = OpenHostLoader(options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  const int port = first->port();
  ASSERT_EQ(first->Stop(), 0);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE((*loader)->Next().ok());
  first = Serve(port);
  second->process().Signal(SIGKILL);
  // Only the first is left: what comes now comes from it.
  for (int i = 0; i < 100; ++i) {
    absl::StatusOr<HostBatch> batch = (*loader)->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
  }
}

TEST_F(FailoverTest, WhenAllServersAreGoneNextSaysSo) {
  std::unique_ptr<ServerProcess> server = Serve();
  HostLoaderOptions options = Options(server->address());
  options.next_timeout = absl::Milliseconds(700);
  auto loader = OpenHostLoader(options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  server->process().Signal(SIGKILL);
  server->process().Wait();
  absl::Status status;
  for (uint64_t i = 0; i < kSteps && status.ok(); ++i) {
    status = (*loader)->Next().status();
  }
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find(server->address()), std::string::npos)
      << status;
  // The position is that of the last batch: resume from there.
  const Position position = (*loader)->position();
  EXPECT_LT(position.step, kSteps);
  const std::unique_ptr<ServerProcess> other = Serve();
  HostLoaderOptions resumed = Options(other->address());
  resumed.start = position;
  auto rest = OpenHostLoader(resumed);
  ASSERT_TRUE(rest.ok()) << rest.status();
  absl::StatusOr<HostBatch> batch = (*rest)->Next();
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->position, position);
}

TEST_F(FailoverTest, AServerWithOtherDataIsLeftOut) {
  const std::string uri = "lmdb:" + NewTempDir() + "/digits.lmdb";
  ASSERT_TRUE(testing::WriteDigits(uri, kSamples + 1).ok());
  std::unique_ptr<ServerProcess> first = Serve();
  std::unique_ptr<ServerProcess> second = Serve();
  auto loader = OpenHostLoader(
      Options(absl::StrCat(first->address(), ",", second->address())));
  ASSERT_TRUE(loader.ok()) << loader.status();
  const EpochAudit audit = Receive(**loader, [&] {
    const int port = first->port();
    first->process().Signal(SIGKILL);
    first->process().Wait();
    auto other = ServerProcess::Start({"--dataset=digits=" + uri}, port);
    ASSERT_TRUE(other.ok()) << other.status();
    first = *std::move(other);
  });
  ExpectUndisturbed(audit);
}

TEST_F(FailoverTest, AllServersMayBeGoneForAWhile) {
  std::unique_ptr<ServerProcess> first = Serve();
  std::unique_ptr<ServerProcess> second = Serve();
  auto loader = OpenHostLoader(
      Options(absl::StrCat(first->address(), ",", second->address())));
  ASSERT_TRUE(loader.ok()) << loader.status();
  std::promise<void> received;
  std::thread repair;
  const EpochAudit audit = Receive(**loader, [&] {
    const int ports[] = {first->port(), second->port()};
    for (ServerProcess* server : {first.get(), second.get()}) {
      server->process().Signal(SIGKILL);
      server->process().Wait();
    }
    repair = std::thread([&, ports] {
      // Not before the loader has noticed; it waits in Next() meanwhile.
      while ((*loader)->stats().servers > 0) {
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
  HostLoaderOptions options =
      Options(absl::StrCat(first->address(), ",", second->address()));
  options.next_timeout = absl::Milliseconds(700);
  auto loader = OpenHostLoader(options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  EpochAudit audit;
  int timeouts = 0;
  for (uint64_t step = 0; step < kSteps;) {
    if (step == kSteps / 2 && timeouts == 0) {
      first->process().Signal(SIGSTOP);
      second->process().Signal(SIGSTOP);
    }
    absl::StatusOr<HostBatch> batch = (*loader)->Next();
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
    ASSERT_EQ((*loader)->position(), (Position{0, step}));
    ASSERT_LT(++timeouts, 100);
    first->process().Signal(SIGCONT);
    second->process().Signal(SIGCONT);
  }
  EXPECT_GT(timeouts, 0);
  ExpectUndisturbed(audit);
}

TEST_F(FailoverTest, AnOnlyServerThatComesBackWithOtherDataIsRefused) {
  const std::string uri = "lmdb:" + NewTempDir() + "/digits.lmdb";
  ASSERT_TRUE(testing::WriteDigits(uri, kSamples + 1).ok());
  std::unique_ptr<ServerProcess> server = Serve();
  auto loader = OpenHostLoader(Options(server->address()));
  ASSERT_TRUE(loader.ok()) << loader.status();
  const int port = server->port();
  for (uint64_t step = 0; step < 10; ++step) {
    ASSERT_TRUE((*loader)->Next().ok());
  }
  ASSERT_EQ(server->Stop(), 0);
  auto other = ServerProcess::Start({"--dataset=digits=" + uri}, port);
  ASSERT_TRUE(other.ok()) << other.status();
  // What came before the change is good and handed out, nothing after it.
  absl::Status status;
  uint64_t steps = 10;
  for (; steps < kSteps && status.ok(); ++steps) {
    status = (*loader)->Next().status();
  }
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find((*other)->address()), std::string::npos)
      << status;
  EXPECT_NE(status.message().find("the data differ"), std::string::npos)
      << status;
  EXPECT_NE(status.message().find((*loader)->plan().fingerprint()),
            std::string::npos)
      << status;
}

}  // namespace
}  // namespace millrace
