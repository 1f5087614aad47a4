// Batches that arrive in memory which is shared with the server: kept where
// they lie, or copied, and mixed with batches that arrive in pieces.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/prefetch/prefetch_loader.h"
#include "tests/client/prefetch/fake_transport.h"

namespace millrace::prefetch {
namespace {

using ::millrace::testing::FakeBatch;
using ::millrace::testing::FakeTransport;
using ::millrace::testing::MakeBatch;
using ::millrace::testing::MakePlan;

// Counts what it gives, and has no more than that.
class CountingAllocator final : public SlotAllocator {
 public:
  uint8_t* Allocate(uint64_t bytes) override {
    ++taken;
    return plain_->Allocate(bytes);
  }
  void Free(uint8_t* data, uint64_t bytes) override {
    plain_->Free(data, bytes);
  }
  int taken = 0;

 private:
  const std::shared_ptr<SlotAllocator> plain_ = NewPlainSlotAllocator();
};

class SharedPayloadTest : public ::testing::Test {
 protected:
  SharedPayloadTest() : allocator_(std::make_shared<CountingAllocator>()) {
    options_.endpoint = "test:1";
    options_.window = 4;
    options_.next_timeout = absl::Milliseconds(50);
    options_.allocator = allocator_;
    options_.verify_payload = true;
  }

  void Open(uint64_t steps, std::vector<ServerState> servers) {
    plan_ = MakePlan(steps);
    auto transport = std::make_unique<FakeTransport>(plan_);
    fake_ = transport.get();
    fake_->SetServers(std::move(servers));
    auto loader =
        NewPrefetchLoader(options_, plan_, std::move(transport), time_,
                          [this] { return time_ += absl::Milliseconds(1); });
    ASSERT_TRUE(loader.ok()) << loader.status();
    loader_ = *std::move(loader);
  }

  // The batch of `step`, in shared memory that dies with the last holder.
  std::weak_ptr<std::string> SendShared(CallId call, uint64_t step) {
    FakeBatch batch = MakeBatch(plan_, {0, step});
    auto memory = std::make_shared<std::string>(std::move(batch.payload));
    wire::FrameView frame;
    frame.step = step;
    frame.has_header = true;
    frame.header = std::move(batch.header);
    frame.data = {*memory};
    frame.data_bytes = memory->size();
    frame.hold = std::shared_ptr<void>(memory, memory->data());
    std::weak_ptr<std::string> watch = memory;
    memory.reset();
    fake_->SendRaw(call, frame);
    return watch;
  }

  // All steps of all calls, in shared memory.
  void ShareAll() {
    while (!fake_->calls().empty()) {
      const auto [id, call] = *fake_->calls().begin();
      for (uint64_t i = 0; i < call.steps.step_count; ++i) {
        SendShared(id, call.steps.first_step + i);
      }
      fake_->End(id, absl::OkStatus());
    }
  }

  HostBatch ExpectNext(uint64_t step) {
    absl::StatusOr<HostBatch> batch = loader_->Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok()) return {};
    EXPECT_EQ(batch->position, (Position{0, step}));
    EXPECT_EQ(std::string(batch->payload.begin(), batch->payload.end()),
              MakeBatch(plan_, {0, step}).payload);
    return *std::move(batch);
  }

  absl::Time time_ = absl::UnixEpoch() + absl::Hours(1);
  const std::shared_ptr<CountingAllocator> allocator_;
  HostLoaderOptions options_;
  OpenResponse plan_;
  FakeTransport* fake_ = nullptr;
  std::unique_ptr<HostLoader> loader_;
};

TEST_F(SharedPayloadTest, AConsumerThatOnlyReadsGetsTheMemoryItself) {
  options_.read_only_payload = true;
  Open(100, {{1, "a", true}});
  const CallId call = fake_->calls().begin()->first;
  const std::weak_ptr<std::string> memory = SendShared(call, 0);
  ASSERT_FALSE(memory.expired());
  const char* const where = memory.lock()->data();
  HostBatch batch = ExpectNext(0);
  EXPECT_EQ(reinterpret_cast<const char*>(batch.payload.data()), where);
  EXPECT_EQ(loader_->stats().open_slots, 1);
  EXPECT_FALSE(memory.expired());
  batch.lease.reset();
  EXPECT_TRUE(memory.expired());
  EXPECT_EQ(loader_->stats().open_slots, 0);
  EXPECT_EQ(allocator_->taken, 0);
}

TEST_F(SharedPayloadTest, OthersGetACopyAndTheMemoryGoesBackAtOnce) {
  Open(100, {{1, "a", true}});
  const CallId call = fake_->calls().begin()->first;
  EXPECT_TRUE(SendShared(call, 0).expired());
  HostBatch batch = ExpectNext(0);
  batch.payload[0] = 1;  // it is the consumer's
  EXPECT_EQ(allocator_->taken, 1);
}

TEST_F(SharedPayloadTest, HeldMemoryCountsAsTheWindowDoes) {
  options_.read_only_payload = true;
  Open(100, {{1, "a", true}});
  std::vector<HostBatch> held;
  for (uint64_t step = 0; step < 4; ++step) {
    fake_->Tick();
    ShareAll();
    held.push_back(ExpectNext(step));
  }
  fake_->Tick();
  EXPECT_TRUE(fake_->calls().empty()) << "all four are held";
  EXPECT_TRUE(absl::IsDeadlineExceeded(loader_->Next().status()));
  held.erase(held.begin());
  fake_->Tick();
  EXPECT_FALSE(fake_->calls().empty());
}

TEST_F(SharedPayloadTest, ABatchThatAlsoArrivesInPiecesIsTakenOnce) {
  options_.read_only_payload = true;
  options_.step_timeout = absl::Milliseconds(20);
  options_.window = 2;
  Open(40, {{1, "slow", true}, {2, "fast", true}});
  for (uint64_t step = 0; step < 40; ++step) {
    // Whoever is asked first falls silent in the middle of a batch.
    std::vector<CallId> slow;
    for (const auto& [id, call] : fake_->calls()) slow.push_back(id);
    for (const CallId id : slow) fake_->SendFrame(id, 10);
    for (int i = 0; i < 100 && fake_->calls().size() == slow.size(); ++i) {
      fake_->Tick();
    }
    // Now each step is asked elsewhere; the answers come at once.
    std::vector<std::pair<CallId, uint64_t>> fresh;
    for (const auto& [id, call] : fake_->calls()) {
      if (std::find(slow.begin(), slow.end(), id) != slow.end()) continue;
      for (uint64_t i = 0; i < call.steps.step_count; ++i) {
        fresh.emplace_back(id, call.steps.first_step + i);
      }
    }
    for (const auto& [id, number] : fresh) SendShared(id, number);
    for (const auto& [id, number] : fresh) {
      if (fake_->calls().count(id) > 0) fake_->End(id, absl::OkStatus());
    }
    // And the silent ones go on where they were.
    for (const CallId id : slow) {
      if (fake_->calls().count(id) > 0) fake_->Complete(id);
    }
    ExpectNext(step);
    fake_->Tick();
  }
  EXPECT_LE(allocator_->taken, 2);
}

// The bench said that batches in shared memory had come over the network.
TEST_F(SharedPayloadTest, SharedBatchesAreNoBytesOfTheWire) {
  for (const bool read_only : {false, true}) {
    SCOPED_TRACE(read_only);
    options_.read_only_payload = read_only;
    Open(100, {{1, "a", true}});
    ShareAll();
    ExpectNext(0);
    EXPECT_GT(loader_->stats().payload_bytes, 0);
    EXPECT_EQ(loader_->stats().wire_bytes, 0);
  }
}

TEST_F(SharedPayloadTest, APartOfABatchIsRefused) {
  options_.read_only_payload = true;
  Open(100, {{1, "a", true}});
  const FakeBatch batch = MakeBatch(plan_, {0, 0});
  for (int i = 0; i < 2; ++i) {  // damage is requested again, once
    wire::FrameView frame;
    frame.has_header = true;
    frame.header = batch.header;
    frame.data_bytes = 10;
    frame.data = {absl::string_view(batch.payload).substr(0, 10)};
    frame.hold = std::make_shared<int>(0);
    const auto call = std::find_if(
        fake_->calls().begin(), fake_->calls().end(),
        [](const auto& one) { return one.second.steps.first_step == 0; });
    ASSERT_NE(call, fake_->calls().end());
    fake_->SendRaw(call->first, frame);
    time_ += absl::Seconds(3);
    fake_->Tick();
  }
  EXPECT_TRUE(absl::IsDataLoss(loader_->Next().status()));
}

}  // namespace
}  // namespace millrace::prefetch
