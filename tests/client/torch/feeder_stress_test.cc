// Batches under random delays of everything: the host loader, copies, casts,
// events and the program's own work on the device. Whatever a consumer reads,
// whenever it reads it, is what the server took the digest of and what the
// transform makes of it. And: the consumer never waits for the device.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/torch/device_feeder.h"
#include "common/mutex.h"
#include "tests/client/torch/fake_device.h"
#include "tests/client/torch/fake_host_loader.h"
#include "tests/client/torch/feeder_checks.h"

namespace millrace::device {
namespace {

// Slowness, not a way to order anything.
void Dawdle(std::mt19937& random, int max_us) {
  std::this_thread::sleep_for(std::chrono::microseconds(
      std::uniform_int_distribution<>(0, max_us)(random)));
}

// Lets go of what it is given, late, on a thread of its own: as tensors die
// that an optimiser or a logger keeps.
class Collector {
 public:
  explicit Collector(uint32_t seed)
      : random_(seed), thread_([this] { Run(); }) {}
  ~Collector() {
    {
      MutexLock lock(mu_);
      ended_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }
  void Take(std::shared_ptr<void> hold) {
    MutexLock lock(mu_);
    holds_.push_back(std::move(hold));
    changed_.NotifyAll();
  }

 private:
  void Run() {
    while (true) {
      std::shared_ptr<void> hold;
      {
        MutexLock lock(mu_);
        while (holds_.empty() && !ended_) changed_.Wait(lock);
        if (holds_.empty()) return;
        hold = std::move(holds_.front());
        holds_.pop_front();
      }
      Dawdle(random_, 300);
    }
  }

  Mutex mu_;
  CondVar changed_;
  bool ended_ MR_GUARDED_BY(mu_) = false;
  std::deque<std::shared_ptr<void>> holds_ MR_GUARDED_BY(mu_);
  std::mt19937 random_;
  std::thread thread_;
};

// Where and by whom batches are prepared.
struct Mode {
  const char* name;
  bool streams = false;
  bool thread = false;
  bool transform = true;
};

class FeederStress : public ::testing::TestWithParam<Mode> {
 protected:
  void Run(uint32_t seed, uint32_t prefetch, uint32_t window, uint64_t rows);

 private:
  // Looks at the batch now, or on the device where the program's work is.
  void Check(const DeviceBatch& batch) {
    DeviceBatch plain = batch;  // what a kernel sees: addresses alone
    for (DeviceTensor& tensor : plain.tensors) tensor.hold = nullptr;
    Look([this, plain] {
      wrong_values_ += CountWrong(plain, GetParam().transform);
      wrong_digests_ += HasItsDigest(plain) ? 0 : 1;
      ++looked_;
    });
  }
  template <typename F>
  void Look(F&& look) {
    if (device_ != nullptr) {
      device_->consumer().Queue(std::forward<F>(look));
    } else {
      look();
    }
  }

  std::shared_ptr<FakeDevice> device_;  // null on the host
  std::atomic<int> wrong_values_ = 0;
  std::atomic<int> wrong_digests_ = 0;
  std::atomic<int> looked_ = 0;
};

void FeederStress::Run(uint32_t seed, uint32_t prefetch, uint32_t window,
                       uint64_t rows) {
  constexpr uint64_t kSteps = 30;
  wrong_values_ = wrong_digests_ = looked_ = 0;
  device_ = GetParam().streams ? std::make_shared<FakeDevice>(seed) : nullptr;
  auto in_use = std::make_shared<std::atomic<int>>(0);
  std::mt19937 host_random(seed + 100);
  auto feeder = Start(
      {.rows = rows,
       .steps = kSteps,
       .epochs = 2,
       .window = window,
       .transform = GetParam().transform,
       .before_next =
           [&host_random](Position) {
             // Now quick, now slow: the consumer waits, and the ring fills.
             Dawdle(host_random, host_random() % 4 == 0 ? 2000 : 50);
             return absl::OkStatus();
           },
       .slots_in_use = in_use},
      device_ != nullptr ? std::shared_ptr<Device>(device_) : NewHostDevice(),
      {.prefetch = prefetch, .thread = GetParam().thread, .audit = true});
  // One slot has to be free for the next batch: of the ring, and on the host,
  // where batches stay in them, of the received ones.
  size_t most_held =
      GetParam().transform || GetParam().streams ? prefetch + 1 : window - 1;
  if (!GetParam().streams) most_held = std::min<size_t>(most_held, window - 1);
  std::mt19937 random(seed);
  int checks = 0;
  {
    Collector collector(seed + 200);
    std::deque<DeviceBatch> held;
    for (uint64_t i = 0; i < 2 * kSteps; ++i) {
      absl::StatusOr<DeviceBatch> batch = feeder->Next();
      ASSERT_TRUE(batch.ok()) << batch.status();
      ASSERT_EQ(batch->position, (Position{i / kSteps, i % kSteps}));
      Check(*batch);
      ++checks;
      held.push_back(*std::move(batch));
      if (random() % 3 == 0) Dawdle(random, 1000);
      while (held.size() > random() % (most_held + 1)) {
        DeviceBatch& oldest = held.front();
        // Again, after other batches have come: it must be the same still.
        Check(oldest);
        ++checks;
        // Its tensors die one by one, here or elsewhere, now or later.
        for (DeviceTensor& tensor : oldest.tensors) {
          if (random() % 8 == 0) collector.Take(std::move(tensor.hold));
        }
        held.pop_front();
      }
    }
    EXPECT_TRUE(absl::IsOutOfRange(feeder->Next().status()));
    // What is held outlives the feeder.
    feeder.reset();
    for (const DeviceBatch& batch : held) {
      Check(batch);
      ++checks;
    }
  }
  if (device_ != nullptr) device_->Synchronize();
  EXPECT_EQ(looked_, checks);
  EXPECT_EQ(wrong_values_, 0);
  EXPECT_EQ(wrong_digests_, 0);
  EXPECT_EQ(*in_use, 0) << "a received slot was not given back";
}

TEST_P(FeederStress, EveryBatchIsWhatTheServerTookTheDigestOf) {
  uint32_t seed = 1;
  for (const uint32_t prefetch : {1, 2, 4}) {
    for (const uint32_t window : {2, 3, 8}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", prefetch "
                                      << prefetch << ", window " << window);
      ASSERT_NO_FATAL_FAILURE(Run(seed, prefetch, window, 1 + seed * 5 % 24));
      ++seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Modes, FeederStress,
    ::testing::Values(
        Mode{.name = "Caller"}, Mode{.name = "Thread", .thread = true},
        Mode{.name = "WithoutRing", .transform = false},
        Mode{.name = "ThreadWithoutRing", .thread = true, .transform = false},
        Mode{.name = "Streams", .streams = true},
        Mode{.name = "StreamsUntransformed",
             .streams = true,
             .transform = false}),
    [](const auto& info) { return std::string(info.param.name); });

// Holds a stream up until it is opened, or destroyed.
class Gate {
 public:
  explicit Gate(FakeStream& stream) {
    stream.Queue([opened = promise_.get_future().share()] { opened.wait(); });
  }
  ~Gate() { Open(); }
  void Open() {
    if (!std::exchange(open_, true)) promise_.set_value();
  }

 private:
  std::promise<void> promise_;
  bool open_ = false;
};

// That the test ends shows it: nothing that comes in afterwards could.
TEST(FeederNext, GivesOutWhatIsOnTheDeviceWithoutWaitingForAnything) {
  auto device = std::make_shared<FakeDevice>(21);
  std::promise<void> reached;
  std::atomic<bool> stalled = false;
  auto feeder = Start({.rows = 8,
                       .steps = 6,
                       .window = 6,
                       .stalled =
                           [&](Position p) {
                             if (p.step < 3) return false;
                             if (!stalled.exchange(true)) reached.set_value();
                             return true;
                           }},
                      device, {.prefetch = 4});
  // Three batches were taken, and the host loader has no fourth.
  reached.get_future().wait();
  device->SynchronizeCopies();  // they are on the device
  Gate copies(device->copies());
  std::atomic<int> wrong = 0;
  std::vector<DeviceBatch> held;
  for (uint64_t step = 0; step < 3; ++step) {
    auto batch = feeder->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->position.step, step);
    DeviceBatch plain = *batch;
    for (DeviceTensor& tensor : plain.tensors) tensor.hold = nullptr;
    device->consumer().Queue([&wrong, plain] { wrong += CountWrong(plain); });
    held.push_back(*std::move(batch));
  }
  // Nor does the program's work on them wait for copies that come later.
  device->Synchronize();
  EXPECT_EQ(wrong, 0);
}

// A batch is given out when its copy is queued: it is the device that waits.
TEST(FeederNext, TheDeviceWaitsForACopyThatIsUnderWayAndTheCallerDoesNot) {
  auto device = std::make_shared<FakeDevice>(22);
  std::unique_ptr<DeviceFeeder> feeder;
  Gate copies(device->copies());
  feeder = Start({.rows = 8, .steps = 6}, device, {.prefetch = 2});
  std::atomic<int> wrong = 0;
  std::atomic<int> looked = 0;
  std::vector<DeviceBatch> held;
  for (int i = 0; i < 3; ++i) {
    auto batch = feeder->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    DeviceBatch plain = *batch;
    for (DeviceTensor& tensor : plain.tensors) tensor.hold = nullptr;
    device->consumer().Queue([&, plain] {
      wrong += CountWrong(plain);
      ++looked;
    });
    held.push_back(*std::move(batch));
  }
  EXPECT_EQ(looked, 0);
  copies.Open();
  device->Synchronize();
  EXPECT_EQ(looked, 3);
  EXPECT_EQ(wrong, 0);
}

// Taking batches, dropping their tensors, going elsewhere, closing, and letting
// go of the last tensor, which frees the slots: none of it makes the thread
// that does it wait for the device.
TEST(FeederNext, TheConsumerNeverWaitsForTheDevice) {
  auto device = std::make_shared<FakeDevice>(23);
  const auto here = std::this_thread::get_id();
  auto feeder = Start({.rows = 8, .steps = 40}, device, {.prefetch = 2});
  std::deque<DeviceBatch> held;
  for (int i = 0; i < 30; ++i) {
    if (i == 20) {
      ASSERT_TRUE(feeder->Seek({0, 5}).ok());
    }
    auto batch = feeder->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    held.push_back(*std::move(batch));
    if (held.size() > 2) held.pop_front();
  }
  EXPECT_FALSE(device->HasAwaited(here));
  feeder->Close();
  // The program's work is held up: what follows must not need its end.
  std::atomic<bool> done = false;
  Gate work(device->consumer());
  device->consumer().Queue([&done] { done = true; });
  feeder.reset();
  held.clear();
  EXPECT_FALSE(device->HasAwaited(here));
  EXPECT_FALSE(done);
  work.Open();
  device->Synchronize();
}

}  // namespace
}  // namespace millrace::device
