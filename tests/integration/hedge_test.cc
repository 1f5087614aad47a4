// Real servers, one of which stops answering: the stream waits for about as
// long as steps usually take, not for a timeout, and the sequence stays what it
// is. And a job that goes on with another number of ranks.

#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/prefetch/host_loader.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"

namespace millrace {
namespace {

using ::millrace::testing::ServerProcess;

constexpr int kSamples = 8'000;
constexpr uint64_t kBatch = 20;
constexpr uint64_t kSteps = kSamples / kBatch;

class HedgeIntegrationTest : public testing::ServiceTest {
 protected:
  static std::unique_ptr<ServerProcess> Serve() {
    return ServiceTest::Serve(
        {Digits(kSamples), "--threads=1", "--memory_budget=128MiB"});
  }
  static HostLoaderOptions Options(const std::string& endpoint) {
    return ServiceTest::Options(endpoint, kBatch);
  }

  // The rows of tensor `name`.
  static std::string Tensor(const HostBatch& batch, const std::string& name) {
    for (const TensorHeader& tensor : batch.header.tensors()) {
      if (tensor.name() != name) continue;
      return std::string(
          reinterpret_cast<const char*>(batch.payload.data()) + tensor.offset(),
          tensor.bytes());
    }
    ADD_FAILURE() << "no tensor " << name;
    return "";
  }
};

TEST_F(HedgeIntegrationTest, AStoppedServerHoldsUpTheStreamForAMoment) {
  std::unique_ptr<ServerProcess> first = Serve();
  std::unique_ptr<ServerProcess> second = Serve();
  HostLoaderOptions options = Options(EndpointOf(*first, *second));
  // Beyond the test's own limit: what goes on does so without it, and nothing
  // else ends the silence so early.
  options.step_timeout = absl::Hours(1);
  options.next_timeout = absl::Minutes(2);
  auto loader = Open(options);
  std::vector<std::string> batches;
  for (uint64_t step = 0; step < kSteps; ++step) {
    if (step == kSteps / 2) first->process().Signal(SIGSTOP);
    absl::StatusOr<HostBatch> batch = loader->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    ASSERT_EQ(batch->position, (Position{0, step}));
    batches.push_back(BytesOf(*batch));
  }
  EXPECT_TRUE(absl::IsOutOfRange(loader->Next().status()));
  const HostLoader::Stats stats = loader->stats();
  EXPECT_GT(stats.hedged_steps + stats.retried_steps, 0);
  // Budget, and one window of the server that stopped.
  EXPECT_LE(stats.hedged_steps, kSteps / 20 + 32);
  EXPECT_EQ(stats.batches, kSteps);
  loader.reset();
  Kill(*first);

  const auto undisturbed = Open(Options(second->address()));
  for (uint64_t step = 0; step < kSteps; ++step) {
    absl::StatusOr<HostBatch> batch = undisturbed->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    ASSERT_EQ(BytesOf(*batch), batches[step]) << "step " << step;
  }
}

TEST_F(HedgeIntegrationTest, AJobGoesOnWithAnotherNumberOfRanks) {
  const std::unique_ptr<ServerProcess> server = Serve();
  // What 2 ranks saw up to the checkpoint is followed by what any number of
  // ranks sees from there: the same global batches, cut anew.
  constexpr Position kCheckpoint = {1, 390};
  constexpr uint64_t kLook = 20;  // over the border of the epoch
  std::vector<std::string> expected;
  std::string plan_hash;
  for (const uint32_t world : {2u, 1u, 4u}) {
    std::vector<std::unique_ptr<HostLoader>> ranks;
    for (uint32_t rank = 0; rank < world; ++rank) {
      HostLoaderOptions options = Options(server->address());
      options.rank = rank;
      options.world_size = world;
      options.start = kCheckpoint;
      options.epochs = 2;
      options.expected_plan_hash = plan_hash;
      ranks.push_back(Open(options));
    }
    plan_hash = ranks[0]->plan().plan_hash();
    for (uint64_t i = 0; i < kLook; ++i) {
      std::string index;
      std::string image;
      std::string label;
      for (auto& rank : ranks) {
        absl::StatusOr<HostBatch> batch = rank->Next();
        ASSERT_TRUE(batch.ok()) << batch.status();
        ASSERT_EQ(batch->header.rows(), kBatch / world);
        index += Tensor(*batch, "sample_index");
        image += Tensor(*batch, "image");
        label += Tensor(*batch, "label");
      }
      std::string global = absl::StrCat(index, image, label);
      if (world == 2) {
        expected.push_back(std::move(global));
      } else {
        EXPECT_EQ(global, expected[i]) << "world " << world << " step " << i;
      }
    }
  }
}

TEST_F(HedgeIntegrationTest, SeekGoesOnElsewhereWithoutAnOpen) {
  const std::unique_ptr<ServerProcess> server = Serve();
  HostLoaderOptions options = Options(server->address());
  options.epochs = 3;
  const auto loader = Open(options);
  absl::StatusOr<HostBatch> held = loader->Next();
  ASSERT_TRUE(held.ok()) << held.status();
  const std::string first = BytesOf(*held);
  for (const Position position :
       {Position{2, 100}, Position{0, 0}, Position{1, kSteps - 1}}) {
    ASSERT_TRUE(loader->Seek(position).ok());
    HostLoaderOptions fresh = options;
    fresh.start = position;
    fresh.epochs = 3 - position.epoch;
    const auto other = Open(fresh);
    for (int i = 0; i < 20; ++i) {
      absl::StatusOr<HostBatch> batch = loader->Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      absl::StatusOr<HostBatch> expected = other->Next();
      ASSERT_TRUE(expected.ok()) << expected.status();
      ASSERT_EQ(batch->position, expected->position);
      ASSERT_EQ(BytesOf(*batch), BytesOf(*expected));
    }
  }
  EXPECT_EQ(BytesOf(*held), first);
}

}  // namespace
}  // namespace millrace
