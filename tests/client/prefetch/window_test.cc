// What a loader does with a window that changes: memory, what the consumer
// holds, and other places in the data meanwhile. In simulated time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "client/prefetch/prefetch_loader.h"
#include "common/logging.h"
#include "proto/error_detail.h"
#include "tests/client/prefetch/fake_transport.h"
#include "tests/client/prefetch/simulation.h"

namespace millrace::prefetch {
namespace {

using ::millrace::testing::FakeTransport;
using ::millrace::testing::MakePlan;
using ::millrace::testing::Simulation;
using ::testing::HasSubstr;

constexpr uint64_t kSlotBytes = 4 << 20;

absl::Duration Ms(double ms) { return absl::Milliseconds(ms); }

class CountingAllocator : public SlotAllocator {
 public:
  uint8_t* Allocate(uint64_t bytes) override {
    most = std::max(most, ++slots);
    return plain_->Allocate(bytes);
  }
  void Free(uint8_t* data, uint64_t bytes) override {
    --slots;
    plain_->Free(data, bytes);
  }
  int slots = 0;
  int most = 0;

 private:
  const std::shared_ptr<SlotAllocator> plain_ = NewPlainSlotAllocator();
};

class WindowTest : public ::testing::Test {
 protected:
  WindowTest() {
    SetMinLogSeverity(LogSeverity::kERROR);
    options_.epochs = 0;
    options_.allocator = allocator_;
  }

  const std::shared_ptr<CountingAllocator> allocator_ =
      std::make_shared<CountingAllocator>();
  HostLoaderOptions options_;
};

TEST_F(WindowTest, MemoryIsBoundedAndWhatIsNotNeededIsGivenBack) {
  options_.initial_window = 64;
  Simulation sim(
      options_, 1000, 2, [](ServerId, uint64_t) { return Ms(5); }, kSlotBytes);
  // A consumer that has all of it come first.
  sim.RunFor(absl::Seconds(1), [](uint64_t) { return Ms(900); });
  EXPECT_GE(allocator_->slots, 40);
  sim.RunFor(absl::Minutes(2), [](uint64_t) { return Ms(20); });
  const uint32_t window = sim.loader().window();
  EXPECT_LE(window, 8);
  EXPECT_LE(allocator_->slots, static_cast<int>(window) + 4 + 1);
  EXPECT_LE(allocator_->most, 64 + 4);
  const HostLoader::Stats stats = sim.loader().stats();
  EXPECT_EQ(stats.first_window, 64);
  EXPECT_EQ(stats.window, window);
  EXPECT_GT(stats.window_changes, 0);
  EXPECT_THAT(stats.window_reason, HasSubstr("always ready"));
  // It takes no more of them when the load is the same.
  const int before = allocator_->slots;
  sim.RunFor(absl::Minutes(1), [](uint64_t) { return Ms(20); });
  EXPECT_LE(allocator_->slots, before);
}

TEST_F(WindowTest, AFixedOneStaysAsItIs) {
  options_.window = 32;
  Simulation sim(
      options_, 1000, 1, [](ServerId, uint64_t) { return Ms(5); }, kSlotBytes);
  sim.RunFor(absl::Seconds(1), [](uint64_t) { return Ms(900); });
  const int slots = allocator_->slots;
  EXPECT_GE(slots, 31);
  sim.RunFor(absl::Minutes(1), [](uint64_t) { return Ms(20); });
  sim.RunFor(absl::Minutes(1), [](uint64_t) { return Ms(0); });
  EXPECT_EQ(sim.loader().window(), 32);
  EXPECT_EQ(sim.loader().stats().window_changes, 0);
  EXPECT_GE(allocator_->slots, slots) << "given back";
}

TEST_F(WindowTest, OtherPlacesLostServersAndLateStepsWhileItChanges) {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    options_.initial_window = 1 + seed * 5;
    uint64_t state = seed;
    const auto draw = [&state](uint64_t n) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return (state >> 33) % n;
    };
    Simulation sim(
        options_, 500, 3,
        [&draw](ServerId, uint64_t) {
          return draw(100) == 0 ? Ms(700) : Ms(4 + draw(8));
        },
        kSlotBytes);
    uint64_t changes = 0;
    for (int i = 0; i < 40; ++i) {
      sim.SetLink({Ms(draw(3) * 20), Ms(draw(3))});
      const double work = static_cast<double>(draw(3)) * 6;
      // Compares every batch with what it must be.
      sim.RunFor(absl::Seconds(6), [work](uint64_t) { return Ms(work); });
      if (draw(2) == 0) sim.SetReady(1 + draw(3), draw(2) == 0);
      if (draw(2) == 0) {
        ASSERT_TRUE(sim.loader().Seek({draw(5), draw(500)}).ok());
      }
      sim.SetReady(1, true);
      changes = sim.loader().stats().window_changes;
    }
    EXPECT_GT(changes, 5) << "the window hardly moves: nothing is tested";
    EXPECT_LE(allocator_->most, 64 + 4);
  }
  EXPECT_EQ(allocator_->slots, 0) << "slots were lost";
}

TEST_F(WindowTest, AServerThatRefusesForWantOfMemoryIsAskedForLess) {
  options_.endpoint = "test:1";
  options_.initial_window = 16;
  OpenResponse plan = MakePlan(1000);
  plan.set_max_payload_bytes(kSlotBytes);
  auto transport = std::make_unique<FakeTransport>(plan);
  FakeTransport* const fake = transport.get();
  fake->SetServers({{1, "a", true}});
  absl::Time time = absl::UnixEpoch();
  auto loader = NewPrefetchLoader(options_, plan, std::move(transport), time,
                                  [&time] { return time; });
  ASSERT_TRUE(loader.ok()) << loader.status();
  ErrorDetail detail = MakeErrorDetail("rpc");
  detail.set_retry_delay_ms(10);
  const auto round = [&] {
    while (!fake->calls().empty()) fake->Complete(fake->calls().begin()->first);
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE((*loader)->Next().ok());
      time += Ms(200);
    }
    fake->Tick();
  };
  for (int i = 0; i < 4; ++i) round();
  EXPECT_EQ((*loader)->window(), 16);
  for (int i = 0; i < 8 && (*loader)->window() == 16; ++i) {
    fake->End(fake->calls().begin()->first,
              WithErrorDetail(absl::ResourceExhaustedError("full"), detail));
    time += Ms(20);
    fake->Tick();
    round();
  }
  EXPECT_LT((*loader)->window(), 16);
  EXPECT_THAT((*loader)->stats().window_reason, HasSubstr("short of memory"));
}

TEST_F(WindowTest, WhatTheConsumerHoldsIsNotCountedAsLongAsItFits) {
  options_.endpoint = "test:1";
  options_.initial_window = 2;
  options_.window_bytes = 6 * kSlotBytes;
  options_.next_timeout = absl::Milliseconds(5);
  OpenResponse plan = MakePlan(100);
  plan.set_max_payload_bytes(kSlotBytes);
  auto transport = std::make_unique<FakeTransport>(plan);
  FakeTransport* const fake = transport.get();
  fake->SetServers({{1, "a", true}});
  absl::Time time = absl::UnixEpoch();
  auto loader = NewPrefetchLoader(options_, plan, std::move(transport), time,
                                  [&time] { return time += Ms(1); });
  ASSERT_TRUE(loader.ok()) << loader.status();
  EXPECT_EQ((*loader)->window(), 2);
  std::vector<HostBatch> held;
  for (int i = 0; i < 6; ++i) {
    uint64_t asked = 0;
    for (const auto& [id, call] : fake->calls()) asked += call.left.size();
    EXPECT_LE(asked + held.size(), 6);
    EXPECT_EQ(asked, std::min<uint64_t>(2, 6 - held.size()));
    while (!fake->calls().empty()) fake->Complete(fake->calls().begin()->first);
    while (held.size() < 6) {
      auto batch = (*loader)->Next();
      if (!batch.ok()) break;
      held.push_back(*std::move(batch));
    }
    fake->Tick();
  }
  EXPECT_EQ(held.size(), 6);
  EXPECT_THAT((*loader)->Next().status().message(),
              HasSubstr("all 6 slots are held"));
  held.pop_back();
  fake->Tick();
  EXPECT_EQ(fake->calls().size(), 1);
}

}  // namespace
}  // namespace millrace::prefetch
