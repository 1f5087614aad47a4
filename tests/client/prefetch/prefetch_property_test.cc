// Servers that fail, fall silent, refuse, answer late, out of order and twice,
// at random, and steps that no server can make: what the consumer gets stays
// the plan's sequence, byte for byte, with an error in place of each damaged
// step. The transport has a thread of its own, so that ThreadSanitizer sees
// both sides.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/prefetch/prefetch_loader.h"
#include "client/prefetch/window_size.h"
#include "common/logging.h"
#include "proto/error_detail.h"
#include "tests/client/prefetch/fake_transport.h"

namespace millrace::prefetch {
namespace {

using ::millrace::testing::FakeTransport;
using ::millrace::testing::MakeBatch;
using ::millrace::testing::MakePlan;

// A clock that the transport's thread moves.
class FakeClock {
 public:
  absl::Time Now() const {
    return absl::UnixEpoch() + absl::Milliseconds(ms_.load());
  }
  void Advance(int64_t ms) { ms_.fetch_add(ms); }

 private:
  std::atomic<int64_t> ms_{1'000'000};
};

class RandomTransport final : public FakeTransport {
 public:
  // Each server ends a call with DataLoss at a step that `damaged` names.
  RandomTransport(OpenResponse plan, uint32_t seed, int servers,
                  FakeClock* clock,
                  std::function<bool(Position)> damaged = nullptr)
      : FakeTransport(std::move(plan)),
        random_(seed),
        clock_(clock),
        damaged_(std::move(damaged)) {
    for (int i = 0; i < servers; ++i) {
      servers_.push_back(
          {static_cast<ServerId>(i + 1), absl::StrCat("server-", i), true});
    }
  }
  ~RandomTransport() override { Stop(); }

  void Start(TransportEvents* events) override {
    events_ = events;
    thread_ = std::thread([this] {
      FakeTransport::Start(events_);
      while (!stop_) Act();
    });
  }
  void Stop() override {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void StartCall(CallId id, ServerId server, const AskedSteps& steps) override {
    FakeTransport::StartCall(id, server, steps);
    Call& call = calls_[id];
    // Batches may finish in any order.
    if (Chance(50)) std::shuffle(call.left.begin(), call.left.end(), random_);
    if (Chance(5)) silent_.insert(id);
  }
  void Wake() override { woken_ = true; }

 private:
  bool Chance(int percent) {
    return static_cast<int>(random_() % 100) < percent;
  }

  void Act() {
    clock_->Advance(5);
    if (woken_.exchange(false) || Chance(10)) events_->OnTick();
    if (Chance(2)) {
      // A server is lost with all its calls, or comes back.
      ServerState& server = servers_[random_() % servers_.size()];
      server.ready = !server.ready;
      const std::vector<CallId> calls = CallsAt(server.id);
      events_->OnServers(servers_);
      if (!server.ready) {
        for (const CallId id : calls)
          EndIfThere(id, absl::UnavailableError(""));
      }
    }
    if (calls_.empty()) {
      std::this_thread::yield();
      return;
    }
    auto it = calls_.begin();
    std::advance(it, random_() % calls_.size());
    const CallId id = it->first;
    if (silent_.count(id) > 0 && !Chance(1)) return;
    if (Chance(3)) return EndIfThere(id, RandomError());
    if (Chance(3)) {
      // Twice the same step: only between batches may it be repeated.
      const Call& call = it->second;
      if (!call.begun && call.left.size() < call.steps.step_count) {
        const uint64_t step =
            call.steps.first_step + random_() % call.steps.step_count;
        const Position position = {call.steps.epoch, step};
        if (damaged_ != nullptr && damaged_(position)) return;
        return SendBatch(id, MakeBatch(plan_, position));
      }
    }
    const Call& next = it->second;
    if (damaged_ != nullptr && !next.begun && !next.left.empty() &&
        damaged_({next.steps.epoch, next.left.front()})) {
      return EndIfThere(id, WithErrorDetail(absl::DataLossError("no image"),
                                            MakeErrorDetail("decode")));
    }
    if (!SendFrame(id, 1 + random_() % 300)) {
      EndIfThere(id, absl::OkStatus());
    }
  }

  void EndIfThere(CallId id, absl::Status status) {
    if (calls_.count(id) > 0) End(id, std::move(status));
  }

  absl::Status RandomError() {
    if (Chance(40)) return absl::UnavailableError("lost");
    if (Chance(30)) return absl::OkStatus();  // without its steps
    // The first server always serves the plan: the others may not.
    ErrorDetail detail = MakeErrorDetail("rpc");
    detail.set_retry_delay_ms(1 + random_() % 200);
    return WithErrorDetail(absl::ResourceExhaustedError("full"), detail);
  }

  std::mt19937 random_;
  FakeClock* const clock_;
  const std::function<bool(Position)> damaged_;
  std::set<CallId> silent_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> woken_{false};
  std::thread thread_;
};

class CountingAllocator : public SlotAllocator {
 public:
  uint8_t* Allocate(uint64_t bytes) override {
    most = std::max<int>(most, ++slots);
    return plain_->Allocate(bytes);
  }
  void Free(uint8_t* data, uint64_t bytes) override {
    --slots;
    plain_->Free(data, bytes);
  }
  std::atomic<int> slots{0};
  std::atomic<int> most{0};  // written under the lock of the pool

 private:
  const std::shared_ptr<SlotAllocator> plain_ = NewPlainSlotAllocator();
};

// Memory that the consumer lends, a fresh buffer for each batch. A buffer that
// came back is never lent again, so a second filling would change it.
class Lender {
 public:
  // As many as the loader wants, or fewer, but at least one in all.
  void Lend(OfferedSlots& slots, uint32_t window, uint64_t bytes,
            std::mt19937& random) {
    uint32_t count = slots.Wanted(window);
    if (count > 0 && random() % 4 == 0) count = random() % count;
    if (slots.count() == 0) count = std::max(1u, count);
    for (; count > 0; --count) {
      uint8_t* const buffer = plain_->Allocate(bytes);
      buffers_.push_back(buffer);
      ASSERT_TRUE(slots.Offer(buffer, bytes).ok());
    }
  }
  ~Lender() {
    for (uint8_t* const buffer : buffers_) plain_->Free(buffer, 0);
  }

 private:
  const std::shared_ptr<SlotAllocator> plain_ = NewPlainSlotAllocator();
  std::vector<uint8_t*> buffers_;
};

class PrefetchPropertyTest : public ::testing::TestWithParam<int> {};

TEST_P(PrefetchPropertyTest, TheSequenceIsExact) {
  SetMinLogSeverity(LogSeverity::kERROR);
  std::mt19937 random(GetParam());
  const uint64_t steps = 1 + random() % 40;
  const bool follows = GetParam() % 2 == 1;
  // Long enough for some changes of a window that follows.
  const uint64_t epochs = (1 + random() % 6) * (follows ? 8 : 1);
  const OpenResponse plan = MakePlan(steps, 1 + random() % 9);
  FakeClock clock;
  HostLoaderOptions options;
  options.endpoint = "random:1";
  options.window = 2 + random() % 30;
  options.epochs = epochs;
  options.start = {random() % 3, random() % steps};
  options.next_timeout = absl::Hours(10'000);
  options.step_timeout = absl::Seconds(2);
  options.verify_payload = random() % 2 == 0;
  // Second requests: none, few, as many as there can be.
  options.hedge_share = std::vector<double>{0, 0.05, 1}[random() % 3];
  options.hedge_floor = absl::Milliseconds(random() % 50);
  const bool seeks = random() % 2 == 0;
  const uint32_t transport_seed = random();
  const int servers = 1 + random() % 4;
  // Fewer than there are slots.
  const size_t most_held = random() % options.window;
  if (follows) {
    // The same room for a window that follows what is measured; a second of the
    // clock's is short.
    options.window_bytes =
        std::max(4u, options.window) * plan.max_payload_bytes();
    options.window = 0;
    options.initial_window = 2 + random() % 15;
  }
  const bool lends = GetParam() % 3 == 2;
  Lender lender;
  const auto allocator = std::make_shared<CountingAllocator>();
  if (lends) {
    options.offered = std::make_shared<OfferedSlots>();
  } else {
    options.allocator = allocator;
  }
  const int slots = ChooseWindow(options, plan.max_payload_bytes());
  // No step, or about one of eight.
  std::function<bool(Position)> damaged;
  if (GetParam() % 4 >= 2) {
    damaged = [](Position at) {
      return ((at.epoch * 7919 + at.step) * 2654435761u >> 7 & 7) == 0;
    };
  }
  auto loader =
      NewPrefetchLoader(options, plan,
                        std::make_unique<RandomTransport>(
                            plan, transport_seed, servers, &clock, damaged),
                        clock.Now(), [&clock] { return clock.Now(); });
  ASSERT_TRUE(loader.ok()) << loader.status();

  // The consumer holds some batches for a while.
  std::deque<HostBatch> held;
  Position expected = options.start;
  const uint64_t last_epoch = options.start.epoch + epochs;
  while (expected.epoch < last_epoch) {
    ASSERT_EQ((*loader)->position(), expected);
    if (lends) {
      ASSERT_NO_FATAL_FAILURE(lender.Lend(*options.offered, (*loader)->window(),
                                          plan.max_payload_bytes(), random));
    }
    absl::StatusOr<HostBatch> batch = (*loader)->Next();
    if (damaged != nullptr && damaged(expected)) {
      // Behind all good batches, and in place of none.
      ASSERT_TRUE(absl::IsDataLoss(batch.status())) << batch.status();
      ASSERT_EQ((*loader)->position(), expected);
      ASSERT_TRUE(absl::IsDataLoss((*loader)->Next().status()));
      if (++expected.step == steps) expected = {expected.epoch + 1, 0};
      if (expected.epoch == last_epoch) break;
      ASSERT_TRUE((*loader)->Seek(expected).ok());
      continue;
    }
    ASSERT_TRUE(batch.ok()) << batch.status();
    ASSERT_EQ(batch->position, expected);
    held.push_back(*std::move(batch));
    // The lender keeps what it gets: more than the loader has slots.
    while (held.size() > most_held + (lends ? 50 : 0)) {
      const HostBatch& oldest = held.front();
      ASSERT_EQ(std::string(oldest.payload.begin(), oldest.payload.end()),
                MakeBatch(plan, oldest.position).payload);
      held.pop_front();
    }
    if (++expected.step == steps) expected = {expected.epoch + 1, 0};
    if (seeks && random() % 16 == 0 && expected.epoch < last_epoch) {
      // Not far back, so that it comes to an end.
      expected.step = std::min<uint64_t>(steps - 1, random() % steps + 1);
      ASSERT_TRUE((*loader)->Seek(expected).ok());
    }
  }
  const absl::Status end = (*loader)->Next().status();
  EXPECT_TRUE(absl::IsOutOfRange(end) ||
              (damaged != nullptr && absl::IsDataLoss(end)))
      << end;
  const HostLoader::Stats stats = (*loader)->stats();
  EXPECT_EQ(stats.open_slots, held.size());
  if (lends) {
    EXPECT_LE(options.offered->count(), slots + 4);
    for (const HostBatch& batch : held) {
      EXPECT_EQ(std::string(batch.payload.begin(), batch.payload.end()),
                MakeBatch(plan, batch.position).payload);
    }
  }
  EXPECT_LE(allocator->most, slots + 4);
  if (!follows) {
    EXPECT_EQ(stats.window_changes, 0);
  }
  held.clear();
  loader->reset();
  EXPECT_EQ(allocator->slots, 0) << "slots were lost";
}

INSTANTIATE_TEST_SUITE_P(Seeds, PrefetchPropertyTest, ::testing::Range(0, 60));

TEST(PrefetchCloseTest, CloseFromAnotherThreadEndsAWaitingNext) {
  SetMinLogSeverity(LogSeverity::kERROR);
  const OpenResponse plan = MakePlan(10);
  for (int round = 0; round < 20; ++round) {
    FakeClock clock;
    HostLoaderOptions options;
    options.endpoint = "random:1";
    options.epochs = 0;
    options.next_timeout = absl::Hours(10'000);
    auto loader = NewPrefetchLoader(
        options, plan,
        std::make_unique<RandomTransport>(plan, round, 2, &clock), clock.Now(),
        [&clock] { return clock.Now(); });
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
    while (taken < round) std::this_thread::yield();
    std::thread closer([&] { (*loader)->Close(); });
    (*loader)->Close();
    closer.join();
    consumer.join();
  }
}

}  // namespace
}  // namespace millrace::prefetch
