#include "server/pipeline/reading/sample_buffers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"

namespace millrace::pipeline {
namespace {

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Buffers of a single plan.
class PlanBuffers : public SampleBuffers {
 public:
  using SampleBuffers::SampleBuffers;
  ReadAccount plan;
};

FetchedSample* Copy(SampleBuffers& buffers, ReadAccount& plan,
                    const std::vector<std::string>& fields) {
  std::vector<absl::Span<const uint8_t>> spans;
  for (const std::string& field : fields) spans.push_back(Bytes(field));
  SampleBuffers::Turn turn(buffers, plan);
  return turn.Copy({.fields = spans, .shard = 3});
}

FetchedSample* Copy(PlanBuffers& buffers,
                    const std::vector<std::string>& fields) {
  return Copy(buffers, buffers.plan, fields);
}

std::vector<std::string> Fields(FetchedSample* sample) {
  std::vector<std::string> fields;
  const absl::Status status =
      sample->Visit([&](const storage::EncodedSample& read) {
        EXPECT_EQ(read.shard, 3);
        for (const auto& field : read.fields) {
          fields.emplace_back(field.begin(), field.end());
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  return fields;
}

TEST(SampleBuffers, KeepsWhatWasRead) {
  PlanBuffers buffers(1 << 20);
  const std::vector<std::string> one = {"an image", "", std::string(1000, 'x')};
  FetchedSample* a = Copy(buffers, one);
  FetchedSample* b = Copy(buffers, {"b"});
  EXPECT_EQ(Fields(a), one);
  EXPECT_EQ(Fields(b), std::vector<std::string>{"b"});
  EXPECT_GE(buffers.held_bytes(), 1008u);
  buffers.Give(a);
  buffers.Give(b);
  buffers.Give(nullptr);
  EXPECT_EQ(buffers.held_bytes(), 0u);
  // Memory is used again, and nothing of what it held is seen.
  EXPECT_GT(buffers.idle_bytes(), 1008u);
  FetchedSample* c = Copy(buffers, {"c", "d"});
  EXPECT_EQ(Fields(c), (std::vector<std::string>{"c", "d"}));
  buffers.Give(c);
}

// Who holds memory of a source while it copies must not wait for room.
TEST(SampleBuffers, RoomCanBeAwaitedBetweenTwoTries) {
  PlanBuffers buffers(4096);  // half of it for samples that are held
  const std::string large(1500, 'x');
  FetchedSample* first = Copy(buffers, {large});
  buffers.Ready({&first, 1});  // now others wait for its room
  const absl::Span<const uint8_t> fields[] = {Bytes(large)};
  const storage::EncodedSample sample = {.fields = fields, .shard = 3};
  FetchedSample* second = nullptr;
  std::latch tried(1);
  std::thread reader([&] {
    SampleBuffers::Turn turn(buffers, buffers.plan);
    EXPECT_FALSE(turn.AwaitRoom());  // nothing was tried
    EXPECT_EQ(turn.TryCopy(sample), nullptr);
    tried.count_down();
    EXPECT_TRUE(turn.AwaitRoom());
    EXPECT_FALSE(turn.AwaitRoom());
    second = turn.TryCopy(sample);
    // Room that is reserved and not used goes back with the turn.
  });
  tried.wait();
  buffers.Give(first);
  reader.join();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(Fields(second), std::vector<std::string>{large});
  buffers.Give(second);
  EXPECT_EQ(buffers.held_bytes(), 0u);
}

TEST(SampleBuffers, AFailureIsThatOfTheRead) {
  PlanBuffers buffers(1 << 20);
  FetchedSample* sample = nullptr;
  {
    SampleBuffers::Turn turn(buffers, buffers.plan);
    sample = turn.Fail(absl::DataLossError("the disk is gone"));
  }
  const absl::Status status = sample->Visit([](const storage::EncodedSample&) {
    ADD_FAILURE();
    return absl::OkStatus();
  });
  EXPECT_EQ(status, absl::DataLossError("the disk is gone"));
  buffers.Give(sample);
  FetchedSample* sound = Copy(buffers, {"sound"});
  EXPECT_EQ(Fields(sound), std::vector<std::string>{"sound"});
  buffers.Give(sound);
}

TEST(SampleBuffers, MemoryOfAHugeSampleIsNotKeptForSmallOnes) {
  PlanBuffers buffers(64 << 10);
  // Whoever reads first is never refused.
  FetchedSample* huge = Copy(buffers, {std::string(1 << 20, 'h')});
  EXPECT_GT(buffers.held_bytes(), 1u << 20);
  buffers.Give(huge);
  EXPECT_LE(buffers.idle_bytes(), 32u << 10);
  FetchedSample* middle = Copy(buffers, {std::string(20 << 10, 'm')});
  buffers.Give(middle);
  FetchedSample* small = Copy(buffers, {"s"});
  EXPECT_LT(buffers.held_bytes(), 4u << 10);
  buffers.Give(small);
}

// Those behind wait, the first goes on, and all come through.
TEST(SampleBuffers, NobodyWaitsForEver) {
  PlanBuffers buffers(16 << 10);
  Mutex mu;
  CondVar changed;
  std::deque<FetchedSample*> read;
  constexpr int kThreads = 8, kEach = 200;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < kEach; ++k) {
        FetchedSample* sample =
            Copy(buffers, {std::string(3000 + 100 * i, 'a' + i)});
        buffers.Ready({&sample, 1});
        MutexLock lock(mu);
        read.push_back(sample);
        changed.NotifyAll();
      }
    });
  }
  for (int k = 0; k < kThreads * kEach; ++k) {
    FetchedSample* sample;
    {
      MutexLock lock(mu);
      while (read.empty()) changed.Wait(lock);
      sample = read.front();
      read.pop_front();
    }
    if (sample == nullptr) continue;  // given up
    const std::string text = Fields(sample)[0];
    EXPECT_EQ(text, std::string(text.size(), text[0]));
    buffers.Give(sample);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(buffers.held_bytes(), 0u);
}

// One sample that goes makes room for many: who gets some wakes the next.
TEST(SampleBuffers, RoomForManyIsFoundByAllOfThem) {
  constexpr int kThreads = 20;
  PlanBuffers buffers(64 << 10);
  FetchedSample* const large = Copy(buffers, {std::string(31'000, 'x')});
  buffers.Ready({&large, 1});
  std::vector<FetchedSample*> small(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back(
        [&, i] { small[i] = Copy(buffers, {std::string(1000, 'a')}); });
  }
  // Some find room beside it, the others wait, or come when it is gone.
  while (buffers.held_bytes() < 31'500) std::this_thread::yield();
  buffers.Give(large);
  for (std::thread& thread : threads) thread.join();
  for (FetchedSample* sample : small) buffers.Give(sample);
  EXPECT_EQ(buffers.held_bytes(), 0u);
}

// However fast reading is: also who is the first waits while there are samples
// that could be used, and goes on when they have been.
TEST(SampleBuffers, ReadingStopsAtTheBoundWhileThereIsSomethingToUse) {
  constexpr uint64_t kBytes = 64 << 10;
  constexpr int kSamples = 200;
  PlanBuffers buffers(2 * kBytes);
  Mutex mu;
  std::deque<FetchedSample*> ready;
  std::atomic<bool> all_read{false};
  std::thread reader([&] {
    for (int i = 0; i < kSamples; ++i) {
      FetchedSample* const sample = Copy(buffers, {std::string(4000, 'x')});
      buffers.Ready({&sample, 1});
      MutexLock lock(mu);
      ready.push_back(sample);
    }
    all_read = true;
  });
  uint64_t most = 0;
  for (int used = 0; used < kSamples;) {
    // As slow as a worker can be: nothing is used before there is no room, and
    // then only after reading has had its chances to go on.
    bool full = false;
    for (int chances = 0; chances < 100 && !all_read;) {
      full = buffers.held_bytes() + 5000 > kBytes;
      if (full) ++chances;
      std::this_thread::yield();
    }
    most = std::max(most, buffers.held_bytes());
    MutexLock lock(mu);
    if (ready.empty()) continue;
    buffers.Give(ready.front());
    ready.pop_front();
    ++used;
  }
  reader.join();
  EXPECT_LE(most, kBytes);
  EXPECT_EQ(buffers.held_bytes(), 0u);
  EXPECT_EQ(buffers.ready_bytes(), 0u);
}

// A task of which samples are missing is nobody's work yet. It held all of its
// samples above the bound: 64 images of 4 MB took 256 MB in each task.
TEST(SampleBuffers, SamplesOfATaskThatLacksOneStayWithinTheBound) {
  constexpr uint64_t kHeldBytes = 8 << 10;
  PlanBuffers buffers(2 * kHeldBytes);
  std::vector<FetchedSample*> task;
  for (int i = 0; i < 20; ++i) {
    task.push_back(Copy(buffers, {std::string(1000, 'x')}));
  }
  EXPECT_NE(task.front(), nullptr);
  EXPECT_EQ(task.back(), nullptr);
  EXPECT_LE(buffers.held_bytes(), kHeldBytes);
  {
    SampleBuffers::Turn turn(buffers, buffers.plan);
    EXPECT_FALSE(turn.MayFindRoom());
  }
  EXPECT_EQ(buffers.ready_bytes(), 0u);
  buffers.Ready(task);
  EXPECT_GT(buffers.ready_bytes(), 0u);
  {
    // Room comes, so reading is no waste.
    SampleBuffers::Turn turn(buffers, buffers.plan);
    EXPECT_TRUE(turn.MayFindRoom());
  }
  for (FetchedSample* sample : task) buffers.Give(sample);
  EXPECT_EQ(buffers.ready_bytes(), 0u);
  // Memory that is used again is not ready again.
  FetchedSample* next = Copy(buffers, {"next"});
  EXPECT_EQ(buffers.ready_bytes(), 0u);
  buffers.Give(next);
}

// The thread inside the visit of a source with a gate tries, then waits
// outside.
TEST(SampleBuffers, AwaitRoomEndsWhereNoRoomIsSureToCome) {
  PlanBuffers buffers(4096);
  const std::string large(1500, 'x');
  FetchedSample* const first = Copy(buffers, {large});
  const absl::Span<const uint8_t> fields[] = {Bytes(large)};
  SampleBuffers::Turn turn(buffers, buffers.plan);
  EXPECT_EQ(turn.TryCopy({.fields = fields, .shard = 3}), nullptr);
  EXPECT_FALSE(turn.AwaitRoom());
  buffers.Give(first);
}

// Who knows the size of a sample reads it only when there is room, and once.
TEST(SampleBuffers, RoomCanBeAwaitedBeforeTheRead) {
  PlanBuffers buffers(8192);  // half of it for samples that are held
  const std::string image(1500, 'x'), label(8, 'l');
  const absl::Span<const uint8_t> fields[] = {Bytes(image), Bytes(label)};
  FetchedSample* first = nullptr;
  {
    SampleBuffers::Turn turn(buffers, buffers.plan);
    ASSERT_TRUE(turn.AwaitRoomFor(1508, 2));
    const uint64_t reserved = buffers.held_bytes();
    EXPECT_GT(reserved, 1508u);
    first = turn.TryCopy({.fields = fields, .shard = 3});
    EXPECT_EQ(buffers.held_bytes(), reserved);
  }
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(Fields(first), (std::vector<std::string>{image, label}));
  {
    SampleBuffers::Turn turn(buffers, buffers.plan);
    // Never, whatever is held.
    EXPECT_FALSE(turn.AwaitRoomFor(5000, 1));
    EXPECT_FALSE(turn.AwaitRoomFor(UINT32_MAX, 1));
    // Not now, and nobody is sure to give room.
    EXPECT_FALSE(turn.AwaitRoomFor(3000, 1));
    EXPECT_TRUE(turn.AwaitRoomFor(100, 1));
    // Room that is not used goes back with the turn.
  }
  buffers.Give(first);
  EXPECT_EQ(buffers.held_bytes(), 0u);
}

// The memory of a sample that is larger than the half was freed and allocated
// again by each thread, and malloc kept it for each.
TEST(SampleBuffers, TheMemoryOfALargeSampleIsUsedAgain) {
  PlanBuffers buffers(16 << 10);
  const std::string large(10'000, 'x');
  for (int i = 0; i < 3; ++i) {
    FetchedSample* const sample = Copy(buffers, {large});
    ASSERT_NE(sample, nullptr);
    EXPECT_EQ(buffers.idle_bytes(), 0u);
    buffers.Give(sample);
    EXPECT_GT(buffers.idle_bytes(), 10'000u);
    EXPECT_LT(buffers.idle_bytes(), 12'000u);
  }
  // Small ones do not hold it.
  buffers.Give(Copy(buffers, {"x"}));
  EXPECT_LE(buffers.idle_bytes(), 2048u);
}

TEST(SampleBuffers, TasksWaitForFewLargeSamplesAndForManySmallOnes) {
  PlanBuffers buffers(256 << 10);
  EXPECT_GT(buffers.MaxTaskSamples(buffers.plan), 64u);  // nothing is known yet
  buffers.Give(Copy(buffers, {std::string(100'000, 'x')}));
  EXPECT_EQ(buffers.MaxTaskSamples(buffers.plan), 1u);
  for (int i = 0; i < 100; ++i) buffers.Give(Copy(buffers, {"x"}));
  EXPECT_GT(buffers.MaxTaskSamples(buffers.plan), 64u);
}

// Two plans that read ahead at the same time. They shared the room and one
// guess of the size of samples: the small samples of one plan were left to the
// workers, which then waited for storage, while a large one of the other was
// held.
class PlansTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kHeldBytes = 32 << 10;
  // Of `large`: more than all of the room.
  const std::string huge_ = std::string(40 << 10, 'L');

  PlansTest() {
    buffers_.Enter(large_);
    buffers_.Enter(small_);
  }
  ~PlansTest() override {
    buffers_.Leave(small_);
    buffers_.Leave(large_);
    EXPECT_EQ(buffers_.held_bytes(), 0u);
    EXPECT_EQ(buffers_.ready_bytes(), 0u);
  }
  // Until `turns` wait for room: by the rate of the time that they have waited.
  void AwaitWaiting(double turns) {
    using Clock = std::chrono::steady_clock;
    while (true) {
      const Clock::time_point start = Clock::now();
      const double before = buffers_.WaitedSeconds();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const double waited = buffers_.WaitedSeconds() - before;
      const std::chrono::duration<double> passed = Clock::now() - start;
      if (waited > (turns - 0.5) * passed.count()) return;
    }
  }

  SampleBuffers buffers_{2 * kHeldBytes};
  ReadAccount large_, small_;
};

TEST_F(PlansTest, ALargeSampleOfOneLeavesTheOtherItsPart) {
  FetchedSample* const huge = Copy(buffers_, large_, {huge_});
  ASSERT_NE(huge, nullptr);
  // Its task lacks other samples: nothing is ready, so nobody may wait.
  std::vector<FetchedSample*> small;
  for (int i = 0; i < 10; ++i) {
    SampleBuffers::Turn turn(buffers_, small_);
    EXPECT_TRUE(turn.MayFindRoom()) << i;
    const std::string bytes(1000, 's');
    const absl::Span<const uint8_t> fields[] = {Bytes(bytes)};
    small.push_back(turn.Copy({.fields = fields}));
    EXPECT_NE(small.back(), nullptr) << i;
  }
  {
    SampleBuffers::Turn turn(buffers_, large_);
    EXPECT_FALSE(turn.MayFindRoom());
  }
  EXPECT_EQ(buffers_.MaxTaskSamples(large_), 1u);
  EXPECT_EQ(buffers_.MaxTaskSamples(small_), kHeldBytes / 2 / 4 / (1008 + 256));
  for (FetchedSample* sample : small) buffers_.Give(sample);
  buffers_.Give(huge);
}

TEST_F(PlansTest, EachStaysWithinItsPartAndAllWithinTheBytes) {
  std::vector<FetchedSample*> held;
  for (ReadAccount* plan : {&large_, &small_}) {
    const uint64_t before = buffers_.held_bytes();
    for (int i = 0; i < 40; ++i) {
      held.push_back(Copy(buffers_, *plan, {std::string(1000, 'x')}));
    }
    EXPECT_LE(buffers_.held_bytes() - before, kHeldBytes / 2);
    EXPECT_GT(buffers_.held_bytes() - before, kHeldBytes / 2 - 1300);
  }
  for (FetchedSample* sample : held) buffers_.Give(sample);
  EXPECT_GT(buffers_.idle_bytes(), kHeldBytes / 2);
  // Memory that is kept makes way for samples that exceed their parts.
  FetchedSample* const huge = Copy(buffers_, large_, {huge_});
  FetchedSample* const other = Copy(buffers_, small_, {huge_});
  ASSERT_NE(huge, nullptr);
  EXPECT_EQ(other, nullptr);
  held.clear();
  for (int i = 0; i < 10; ++i) {
    held.push_back(Copy(buffers_, small_, {std::string(1000, 'x')}));
  }
  EXPECT_LE(buffers_.held_bytes() + buffers_.idle_bytes(), 2 * kHeldBytes);
  for (FetchedSample* sample : held) buffers_.Give(sample);
  buffers_.Give(huge);
  EXPECT_LE(buffers_.idle_bytes(), 2 * kHeldBytes);
}

// The first waiter alone was woken, and found no room; those behind it slept.
TEST_F(PlansTest, AThreadThatWaitsForMuchRoomHoldsUpNoOtherPlan) {
  FetchedSample* const huge = Copy(buffers_, large_, {huge_});
  buffers_.Ready({&huge, 1});
  FetchedSample* next_huge = nullptr;
  std::thread first([&] { next_huge = Copy(buffers_, large_, {huge_}); });
  AwaitWaiting(1);
  std::vector<FetchedSample*> small;
  for (int i = 0; i < 12; ++i) {
    small.push_back(Copy(buffers_, small_, {std::string(1000, 's')}));
    ASSERT_NE(small.back(), nullptr);
  }
  buffers_.Ready(small);
  FetchedSample* next_small = nullptr;
  std::thread second(
      [&] { next_small = Copy(buffers_, small_, {std::string(1000, 's')}); });
  AwaitWaiting(2);
  buffers_.Give(small.back());
  small.pop_back();
  second.join();  // while the first one waits
  EXPECT_NE(next_small, nullptr);
  EXPECT_GT(buffers_.held_bytes(), 40u << 10);
  buffers_.Give(huge);
  first.join();
  EXPECT_NE(next_huge, nullptr);
  for (FetchedSample* sample : small) buffers_.Give(sample);
  buffers_.Give(next_small);
  buffers_.Give(next_huge);
}

TEST_F(PlansTest, APlanThatIsAloneHasAllOfTheRoom) {
  buffers_.Leave(small_);
  std::vector<FetchedSample*> held;
  for (int i = 0; i < 40; ++i) {
    held.push_back(Copy(buffers_, large_, {std::string(1000, 'x')}));
  }
  EXPECT_GT(buffers_.held_bytes(), kHeldBytes - 1300);
  EXPECT_LE(buffers_.held_bytes(), kHeldBytes);
  // The part of a plan that comes then is free once samples are used.
  buffers_.Enter(small_);
  buffers_.Ready(held);
  FetchedSample* small = nullptr;
  std::thread other(
      [&] { small = Copy(buffers_, small_, {std::string(1000, 's')}); });
  AwaitWaiting(1);
  for (FetchedSample* sample : held) buffers_.Give(sample);
  other.join();
  EXPECT_NE(small, nullptr);
  buffers_.Give(small);
}

// As NobodyWaitsForEver, for plans whose samples are small, fit and never fit.
TEST_F(PlansTest, NobodyWaitsForEver) {
  Mutex mu;
  CondVar changed;
  std::deque<FetchedSample*> read;
  constexpr int kPlans = 4, kEach = 150;
  const int sizes[kPlans] = {100, 3000, 10'000, 40'000};
  ReadAccount plans[kPlans];
  std::vector<std::thread> threads;
  for (int i = 0; i < 2 * kPlans; ++i) {
    threads.emplace_back([&, i] {
      ReadAccount& plan = plans[i % kPlans];
      for (int k = 0; k < kEach; ++k) {
        if (k % 50 == 0) buffers_.Enter(plan);
        FetchedSample* sample = Copy(
            buffers_, plan, {std::string(sizes[i % kPlans] + 10 * i, 'a' + i)});
        buffers_.Ready({&sample, 1});
        MutexLock lock(mu);
        read.push_back(sample);
        changed.NotifyAll();
        if (k % 50 == 49) buffers_.Leave(plan);
      }
    });
  }
  for (int k = 0; k < 2 * kPlans * kEach; ++k) {
    FetchedSample* sample;
    {
      MutexLock lock(mu);
      while (read.empty()) changed.Wait(lock);
      sample = read.front();
      read.pop_front();
    }
    if (sample == nullptr) continue;  // given up
    const std::string text = Fields(sample)[0];
    EXPECT_EQ(text, std::string(text.size(), text[0]));
    buffers_.Give(sample);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace millrace::pipeline
