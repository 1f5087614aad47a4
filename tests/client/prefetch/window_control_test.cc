// What becomes of a consumer's counters; window_tuner_test has the decisions,
// window_test a loader whose window changes.

#include "client/prefetch/window_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "client/prefetch/host_loader.h"

namespace millrace::prefetch {
namespace {

using ::testing::HasSubstr;

// A consumer that takes 20 batches a second and waits for 80 % of its time.
class WindowControlTest : public ::testing::Test {
 protected:
  WindowControlTest() : times_(1) {
    times_[0].address = "a";
    seen_.by_server = &times_;
    seen_.min_in_hand = 1;
    EXPECT_TRUE(Look()) << "nothing was consumed yet";
  }

  bool Look(bool disturbed = false) {
    return control_.Look(seen_, disturbed, 1, time_);
  }

  // 100 ms later.
  bool Tick(bool disturbed = false) {
    time_ += absl::Milliseconds(100);
    seen_.batches += 2;
    seen_.wait_seconds += 0.08;
    seen_.last_return = time_;
    times_[0].batches += 2;
    return Look(disturbed);
  }

  // Until the window is another, for 3 s.
  void TickUntilChanged() {
    for (int i = 0; i < 30 && control_.changes() == 0; ++i) Tick();
  }

  absl::Time time_ = absl::UnixEpoch();
  std::vector<diagnosis::ServerTimes> times_;
  Consumption seen_;
  WindowControl control_{WindowTuner::Options{.initial = 8, .max = 64}};
};

TEST_F(WindowControlTest, CountsAnewWhenAWholeWindowHasGoneThrough) {
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(Tick());
  EXPECT_TRUE(Tick()) << "8 batches";
  EXPECT_FALSE(Tick());
  EXPECT_EQ(control_.changes(), 0);
}

TEST_F(WindowControlTest, RequestsMoreWhenTheConsumerWaits) {
  TickUntilChanged();
  EXPECT_EQ(control_.changes(), 1);
  EXPECT_EQ(control_.window(), 16);
  EXPECT_EQ(control_.reason(), "the consumer waited 80 % of the time");
}

TEST_F(WindowControlTest, ARefusalMakesTheWindowSmaller) {
  while (!Tick()) {
  }
  control_.Refused();
  TickUntilChanged();
  EXPECT_EQ(control_.window(), 4);
  EXPECT_THAT(control_.reason(), HasSubstr("short of memory"));
}

TEST_F(WindowControlTest, ARefusalFromBeforeCountsNoMore) {
  control_.Refused();
  TickUntilChanged();
  EXPECT_EQ(control_.window(), 16);
}

TEST_F(WindowControlTest, ServersShortOfMemoryMakeTheWindowSmaller) {
  for (int i = 0; i < 30 && control_.changes() == 0; ++i) {
    times_[0].timed_batches += 2;
    times_[0].make_seconds += 0.1;
    times_[0].idle_seconds += 0.08;
    times_[0].wait_memory_seconds += 0.08;
    Tick();
  }
  EXPECT_EQ(control_.window(), 4);
}

TEST_F(WindowControlTest, BusyServersGetNoMoreRequests) {
  for (int i = 0; i < 30; ++i) {
    times_[0].timed_batches += 2;
    times_[0].make_seconds += 0.1;
    times_[0].decode_seconds += 0.1;
    Tick();
    EXPECT_LE(control_.window(), 8);
  }
}

TEST_F(WindowControlTest, DisturbedIntervalsDecideNothing) {
  for (int i = 0; i < 100; ++i) {
    if (i % 8 == 7) {
      EXPECT_TRUE(Tick(true));
    } else {
      Tick();
    }
  }
  EXPECT_EQ(control_.changes(), 0);
}

TEST_F(WindowControlTest, NothingIsDecidedAcrossASeek) {
  for (int i = 0; i < 100; ++i) {
    if (i % 8 == 7) ++seen_.generation;
    Tick();
  }
  EXPECT_EQ(control_.changes(), 0);
  TickUntilChanged();
  EXPECT_EQ(control_.changes(), 1);
}

// Counts the slots that there are.
class CountingAllocator : public SlotAllocator {
 public:
  uint8_t* Allocate(uint64_t bytes) override {
    ++slots;
    return plain_->Allocate(bytes);
  }
  void Free(uint8_t* data, uint64_t bytes) override {
    --slots;
    plain_->Free(data, bytes);
  }
  int slots = 0;

 private:
  const std::shared_ptr<SlotAllocator> plain_ = NewPlainSlotAllocator();
};

TEST(WindowControlTrimTest, GivesBackWhatWasOfNoUseForTenSeconds) {
  const auto allocator = std::make_shared<CountingAllocator>();
  SlotPool pool(allocator, 8, 64);
  std::vector<uint8_t*> taken;
  for (int i = 0; i < 8; ++i) taken.push_back(*pool.Take());
  for (uint8_t* slot : taken) pool.PutBack(slot);
  WindowControl control({.initial = 2, .max = 7});
  absl::Time time = absl::UnixEpoch();
  control.Trim(&pool, 1, time);
  time += absl::Milliseconds(9999);
  control.Trim(&pool, 1, time);
  EXPECT_EQ(allocator->slots, 8);
  time += absl::Milliseconds(1);
  control.Trim(&pool, 1, time);
  EXPECT_EQ(allocator->slots, 7) << "one at a time";
  for (int i = 0; i < 100; ++i) control.Trim(&pool, 1, time);
  EXPECT_EQ(allocator->slots, 3) << "the window and a spare one";
}

}  // namespace
}  // namespace millrace::prefetch
