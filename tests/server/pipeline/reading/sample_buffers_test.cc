#include "server/pipeline/reading/sample_buffers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"

namespace millrace {
namespace {

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

FetchedSample* Copy(SampleBuffers& buffers,
                    const std::vector<std::string>& fields, int64_t row = 0) {
  std::vector<absl::Span<const uint8_t>> spans;
  for (const std::string& field : fields) spans.push_back(Bytes(field));
  SampleBuffers::Turn turn(buffers);
  return turn.Copy({.fields = spans, .shard = 3, .row = row});
}

std::vector<std::string> Fields(FetchedSample* sample) {
  std::vector<std::string> fields;
  const absl::Status status = sample->Visit([&](const EncodedSample& read) {
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
  SampleBuffers buffers(1 << 20);
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
  SampleBuffers buffers(4096);  // half of it for samples that are held
  const std::string large(1500, 'x');
  FetchedSample* first = Copy(buffers, {large});
  buffers.Ready({&first, 1});  // now others wait for its room
  const absl::Span<const uint8_t> fields[] = {Bytes(large)};
  const EncodedSample sample = {.fields = fields, .shard = 3};
  FetchedSample* second = nullptr;
  std::latch tried(1);
  std::thread reader([&] {
    SampleBuffers::Turn turn(buffers);
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
  SampleBuffers buffers(1 << 20);
  FetchedSample* sample = nullptr;
  {
    SampleBuffers::Turn turn(buffers);
    sample = turn.Fail(absl::DataLossError("the disk is gone"));
  }
  const absl::Status status = sample->Visit([](const EncodedSample&) {
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
  SampleBuffers buffers(64 << 10);
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
  SampleBuffers buffers(16 << 10);
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
  SampleBuffers buffers(64 << 10);
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
  SampleBuffers buffers(2 * kBytes);
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
  SampleBuffers buffers(2 * kHeldBytes);
  std::vector<FetchedSample*> task;
  for (int i = 0; i < 20; ++i) {
    task.push_back(Copy(buffers, {std::string(1000, 'x')}));
  }
  EXPECT_NE(task.front(), nullptr);
  EXPECT_EQ(task.back(), nullptr);
  EXPECT_LE(buffers.held_bytes(), kHeldBytes);
  {
    SampleBuffers::Turn turn(buffers);
    EXPECT_FALSE(turn.MayFindRoom());
  }
  EXPECT_EQ(buffers.ready_bytes(), 0u);
  buffers.Ready(task);
  EXPECT_GT(buffers.ready_bytes(), 0u);
  {
    // Room comes, so reading is no waste.
    SampleBuffers::Turn turn(buffers);
    EXPECT_TRUE(turn.MayFindRoom());
  }
  for (FetchedSample* sample : task) buffers.Give(sample);
  EXPECT_EQ(buffers.ready_bytes(), 0u);
  // Memory that is used again is not ready again.
  FetchedSample* next = Copy(buffers, {"next"});
  EXPECT_EQ(buffers.ready_bytes(), 0u);
  buffers.Give(next);
}

// The thread inside the visit of a source with a gate tries, then waits outside.
TEST(SampleBuffers, AwaitRoomEndsWhereNoRoomIsSureToCome) {
  SampleBuffers buffers(4096);
  const std::string large(1500, 'x');
  FetchedSample* const first = Copy(buffers, {large});
  const absl::Span<const uint8_t> fields[] = {Bytes(large)};
  SampleBuffers::Turn turn(buffers);
  EXPECT_EQ(turn.TryCopy({.fields = fields, .shard = 3}), nullptr);
  EXPECT_FALSE(turn.AwaitRoom());
  buffers.Give(first);
}

// The memory of a sample that is larger than the half was freed and allocated
// again by each thread, and malloc kept it for each.
TEST(SampleBuffers, TheMemoryOfALargeSampleIsUsedAgain) {
  SampleBuffers buffers(16 << 10);
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
  SampleBuffers buffers(256 << 10);
  EXPECT_GT(buffers.MaxTaskSamples(), 64u);  // nothing is known yet
  buffers.Give(Copy(buffers, {std::string(100'000, 'x')}));
  EXPECT_EQ(buffers.MaxTaskSamples(), 1u);
  for (int i = 0; i < 100; ++i) buffers.Give(Copy(buffers, {"x"}));
  EXPECT_GT(buffers.MaxTaskSamples(), 64u);
}

}  // namespace
}  // namespace millrace
