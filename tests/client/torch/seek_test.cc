// DeviceFeeder::Seek: what is given out afterwards, what becomes of what was
// ready, and which slots are in use then.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
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

using ::testing::HasSubstr;

// Where and by whom batches are prepared.
struct Mode {
  const char* name;
  bool streams = false;
  bool thread = false;
  bool transform = true;  // with a ring, on the host
};

class FeederSeek : public ::testing::TestWithParam<Mode> {
 protected:
  void Open(FakeHostLoader::Options host, DeviceFeeder::Options options = {},
            uint32_t seed = 1) {
    if (GetParam().streams) {
      fake_ = std::make_shared<FakeDevice>(seed);
      device_ = fake_;
    } else {
      device_ = NewHostDevice();
    }
    in_use_ = std::make_shared<std::atomic<int>>(0);
    host.slots_in_use = in_use_;
    host.transform = GetParam().transform;
    options.thread = GetParam().thread;
    steps_ = host.steps;
    feeder_ = Start(std::move(host), device_, options);
  }

  Position After(Position position) const {
    ++position.step;
    return position.step < steps_ ? position : Position{position.epoch + 1, 0};
  }

  // Reads the batch as work of the program on its device does, later.
  void Read(const DeviceBatch& batch) {
    if (fake_ == nullptr) {
      wrong_ += CountWrong(batch, GetParam().transform);
      return;
    }
    DeviceBatch plain = batch;  // what a kernel sees: addresses alone
    for (DeviceTensor& tensor : plain.tensors) tensor.hold = nullptr;
    fake_->consumer().Queue([this, plain] { wrong_ += CountWrong(plain); });
  }
  int Wrong() {
    if (fake_ != nullptr) fake_->Synchronize();
    return wrong_;
  }

  DeviceBatch ExpectNext(Position position, uint64_t generation) {
    absl::StatusOr<DeviceBatch> batch = feeder_->Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok()) return {};
    EXPECT_EQ(batch->position, position);
    EXPECT_EQ(batch->generation, generation);
    EXPECT_EQ(feeder_->position(), After(position));
    Read(*batch);
    return *std::move(batch);
  }

  uint64_t steps_ = 0;
  std::shared_ptr<std::atomic<int>> in_use_;
  std::atomic<int> wrong_ = 0;
  std::shared_ptr<Device> device_;
  std::shared_ptr<FakeDevice> fake_;  // null on the host
  std::unique_ptr<DeviceFeeder> feeder_;
};

TEST_P(FeederSeek, GoesOnAtThePosition) {
  Open({.steps = 20, .epochs = 2}, {.audit = true});
  ExpectNext({0, 0}, 0);
  ExpectNext({0, 1}, 0);
  ASSERT_TRUE(feeder_->Seek({1, 17}).ok());
  EXPECT_EQ(feeder_->position(), (Position{1, 17}));
  const DeviceBatch batch = ExpectNext({1, 17}, 1);
  ASSERT_TRUE(batch.audit.has_value());
  EXPECT_EQ(batch.audit->samples, 4u);
  ASSERT_TRUE(feeder_->Seek({0, 5}).ok());
  ASSERT_TRUE(feeder_->Seek({0, 1}).ok());
  for (uint64_t step = 1; step < 20; ++step) ExpectNext({0, step}, 3);
  ExpectNext({1, 0}, 3);
  EXPECT_EQ(Wrong(), 0);
}

// A consumer that goes on in order, here and there elsewhere, and holds some
// batches meanwhile; whatever comes is what an undisturbed epoch has there.
TEST_P(FeederSeek, GivesTheRightBatchesWhereverItGoes) {
  constexpr uint64_t kEpochs = 4;
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    std::mt19937 host_random(seed);
    const uint32_t prefetch = 1 + seed % 3;
    Open({.rows = 8,
          .steps = 9,
          .epochs = kEpochs,
          .window = 6,
          // Slowness of a network, not a way to order anything.
          .before_next =
              [&host_random](Position) {
                std::this_thread::sleep_for(std::chrono::microseconds(
                    std::uniform_int_distribution<>(0, 200)(host_random)));
                return absl::OkStatus();
              }},
         {.prefetch = prefetch, .next_timeout = absl::Minutes(1)}, seed);
    std::mt19937 random(seed);
    std::deque<DeviceBatch> held;
    Position next;
    uint64_t generation = 0;
    for (int i = 0; i < 250; ++i) {
      if (random() % 4 == 0) {
        Position to = {random() % kEpochs, random() % 10};
        ASSERT_TRUE(feeder_->Seek(to).ok());
        ++generation;
        if (to.step == 9) to = {to.epoch + 1, 0};
        next = to;
        EXPECT_EQ(feeder_->position(), next);
        continue;
      }
      if (next.epoch == kEpochs) {
        EXPECT_TRUE(absl::IsOutOfRange(feeder_->Next().status()));
        continue;
      }
      held.push_back(ExpectNext(next, generation));
      next = After(next);
      while (held.size() > random() % 3) held.pop_front();
    }
    // No slot is lost: all of them can be held.
    held.clear();
    ASSERT_TRUE(feeder_->Seek({0, 0}).ok());
    for (uint64_t step = 0; step < prefetch + 2; ++step) {
      held.push_back(ExpectNext({0, step}, generation + 1));
    }
    EXPECT_EQ(Wrong(), 0) << "seed " << seed;
    held.clear();
    feeder_.reset();
    EXPECT_EQ(*in_use_, 0) << "a received slot was not given back";
  }
}

TEST_P(FeederSeek, GoesBackAfterTheEndOfAllEpochs) {
  Open({.steps = 3, .epochs = 2});
  Position next;
  for (int i = 0; i < 6; ++i, next = After(next)) ExpectNext(next, 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(absl::IsOutOfRange(feeder_->Next().status()));
  }
  ASSERT_TRUE(feeder_->Seek({1, 1}).ok());
  ExpectNext({1, 1}, 1);
  ExpectNext({1, 2}, 1);
  EXPECT_TRUE(absl::IsOutOfRange(feeder_->Next().status()));
  // The end is a position, too.
  for (const Position end : {Position{2, 0}, Position{1, 3}}) {
    ASSERT_TRUE(feeder_->Seek({0, 2}).ok());
    ASSERT_TRUE(feeder_->Seek(end).ok());
    EXPECT_EQ(feeder_->position(), (Position{2, 0}));
    EXPECT_TRUE(absl::IsOutOfRange(feeder_->Next().status()));
  }
  EXPECT_EQ(Wrong(), 0);
}

TEST_P(FeederSeek, EndsAFinalError) {
  Open({.steps = 8, .before_next = [](Position p) {
          return p.step == 2 ? absl::DataLossError("row 17 is bad")
                             : absl::OkStatus();
        }});
  ExpectNext({0, 0}, 0);
  ExpectNext({0, 1}, 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(feeder_->Next().status().message(), "row 17 is bad");
  }
  ASSERT_TRUE(feeder_->Seek({0, 3}).ok());
  for (uint64_t step = 3; step < 8; ++step) ExpectNext({0, step}, 1);
  EXPECT_TRUE(absl::IsOutOfRange(feeder_->Next().status()));
  // It is still there.
  ASSERT_TRUE(feeder_->Seek({0, 1}).ok());
  ExpectNext({0, 1}, 2);
  EXPECT_TRUE(absl::IsDataLoss(feeder_->Next().status()));
  EXPECT_TRUE(absl::IsDataLoss(feeder_->Next().status()));
  EXPECT_EQ(Wrong(), 0);
}

TEST_P(FeederSeek, RefusesWhatIsNoPositionAndGoesOnAsBefore) {
  Open({.steps = 5, .epochs = 2});
  ExpectNext({0, 0}, 0);
  for (const Position nowhere : {Position{0, 6}, Position{2, 1}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(feeder_->Seek(nowhere)));
  }
  EXPECT_EQ(feeder_->position(), (Position{0, 1}));
  ExpectNext({0, 1}, 0);
  feeder_->Close();
  EXPECT_TRUE(absl::IsCancelled(feeder_->Seek({0, 0})));
  EXPECT_EQ(feeder_->position(), (Position{0, 2}));
  EXPECT_TRUE(absl::IsCancelled(feeder_->Next().status()));
  EXPECT_EQ(Wrong(), 0);
}

TEST_P(FeederSeek, WhatTheCallerHoldsStaysAndCounts) {
  if (!GetParam().transform) GTEST_SKIP() << "the host loader's slots count";
  Open({.rows = 8, .steps = 30, .window = 16},
       {.prefetch = 1, .next_timeout = absl::Milliseconds(20)});
  std::vector<DeviceBatch> held;
  // With a deadline this short a loaded machine may need another call.
  const auto take = [&](Position position) {
    absl::StatusOr<DeviceBatch> batch = feeder_->Next();
    while (absl::IsDeadlineExceeded(batch.status())) batch = feeder_->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_EQ(batch->position, position);
    held.push_back(*std::move(batch));
  };
  take({0, 0});
  take({0, 1});
  for (uint64_t step = 20; step > 10; --step) {
    ASSERT_TRUE(feeder_->Seek({0, step}).ok());
  }
  take({0, 11});
  const absl::Status full = feeder_->Next().status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(full)) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("all 3 slots are held"));
  for (const DeviceBatch& batch : held) Read(batch);
  EXPECT_EQ(Wrong(), 0);
}

TEST_P(FeederSeek, ANextThatWaitsGoesOnAtTheNewPlace) {
  std::atomic<bool> waits = false;
  Open({.steps = 10, .epochs = 2, .stalled = [&waits](Position p) {
          const bool stalled = p.epoch == 0 && p.step >= 3;
          if (stalled) waits = true;
          return stalled;
        }});
  std::thread seeker([&] {
    while (!waits) std::this_thread::yield();
    EXPECT_TRUE(feeder_->Seek({1, 4}).ok());
  });
  // Of the old place come none, some or all that there are; then the new one.
  uint64_t step = 0;
  while (true) {
    auto batch = feeder_->Next();
    ASSERT_TRUE(batch.ok()) << batch.status();
    Read(*batch);
    if (batch->generation == 1) {
      EXPECT_EQ(batch->position, (Position{1, 4}));
      break;
    }
    ASSERT_EQ(batch->position, (Position{0, step++}));
    ASSERT_LE(step, 3u);
  }
  seeker.join();
  ExpectNext({1, 5}, 1);
  EXPECT_EQ(Wrong(), 0);
}

// One thread takes, another one sends the feeder about. What is of a Seek()
// begins at its place and goes on in order, and nothing older follows.
TEST_P(FeederSeek, AnotherThreadSendsItAbout) {
  constexpr uint64_t kSeeks = 300;
  Open({.rows = 8, .steps = 7, .epochs = 3, .window = 4}, {.prefetch = 2});
  Mutex mu;
  std::vector<Position> targets = {{0, 0}};  // by generation
  std::thread seeker([&] {
    std::mt19937 random(3);
    for (uint64_t i = 1; i <= kSeeks; ++i) {
      Position to = {random() % 3, random() % 8};
      if (i == kSeeks) to = {1, 1};  // not the end: the consumer waits for it
      if (to.step == 7) to = {to.epoch + 1, 0};
      {
        MutexLock lock(mu);
        targets.push_back(to);
      }
      ASSERT_TRUE(feeder_->Seek(to).ok());
      for (uint32_t spin = random() % 64; spin > 0; --spin) {
        std::this_thread::yield();
      }
    }
  });
  uint64_t generation = 0;
  Position next;
  while (generation < kSeeks) {
    auto batch = feeder_->Next();
    if (absl::IsOutOfRange(batch.status())) {
      std::this_thread::yield();  // until the next Seek()
      continue;
    }
    if (!batch.ok()) {
      ADD_FAILURE() << batch.status();
      break;
    }
    EXPECT_GE(batch->generation, generation);
    if (batch->generation != generation) {
      generation = batch->generation;
      MutexLock lock(mu);
      next = targets[generation];
    }
    EXPECT_EQ(batch->position, next) << "after " << generation << " seeks";
    next = After(batch->position);
    Read(*batch);
  }
  seeker.join();
  EXPECT_EQ(feeder_->position(), next);
  EXPECT_EQ(Wrong(), 0);
  feeder_.reset();
  EXPECT_EQ(*in_use_, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, FeederSeek,
    ::testing::Values(
        Mode{.name = "Caller"}, Mode{.name = "Thread", .thread = true},
        Mode{.name = "WithoutRing", .transform = false},
        Mode{.name = "ThreadWithoutRing", .thread = true, .transform = false},
        Mode{.name = "Streams", .streams = true}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace millrace::device
