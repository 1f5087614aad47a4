// The memory for files that are read: its bound, whom it lets wait, and what it
// keeps.

#include "server/storage/file_room.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace millrace::storage {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(FileRoomTest, CountsBuffersInUseAndKeepsSmallOnes) {
  FileRoom room(4 * kMiB);
  {
    const FileRoom::Buffer buffer(room, 1000);
    ASSERT_NE(buffer.data(), nullptr);
    EXPECT_EQ(room.used_bytes(), FileRoom::Charge(1000));
  }
  const uint64_t kept = room.used_bytes();
  EXPECT_GE(kept, 1000);
  {
    // The memory is used again.
    const FileRoom::Buffer buffer(room, 900);
    EXPECT_EQ(room.used_bytes(), kept);
  }
  { const FileRoom::Buffer buffer(room, 3 * kMiB); }
  EXPECT_LE(room.used_bytes(), kMiB);  // a large buffer is not kept
}

// What is kept never takes the room of a file that is read.
TEST(FileRoomTest, KeptMemoryMakesRoom) {
  FileRoom room(FileRoom::Charge(kMiB));
  { const FileRoom::Buffer buffer(room, kMiB / 2); }
  EXPECT_GT(room.used_bytes(), 0);
  const FileRoom::Buffer buffer(room, kMiB);
  EXPECT_EQ(room.used_bytes(), FileRoom::Charge(kMiB));
}

TEST(FileRoomTest, AnEmptyRoomTakesTheLargestFile) {
  FileRoom room(FileRoom::Charge(kMiB));
  for (int i = 0; i < 3; ++i) {
    const FileRoom::Buffer buffer(room, kMiB);
    EXPECT_NE(buffer.data(), nullptr);
  }
}

// Many threads and files of all sizes: the bound holds, all come through, and
// nothing is left but what is kept.
TEST(FileRoomTest, ThreadsWaitInsteadOfExceedingTheBound) {
  FileRoom room(FileRoom::Charge(kMiB));
  std::atomic<uint64_t> in_use{0};
  std::atomic<int> exceeded{0}, done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 200; ++i) {
        const size_t bytes = 1 + (i * 7919 + t * 104729) % kMiB;
        const FileRoom::Buffer buffer(room, bytes);
        if ((in_use += bytes) > kMiB) ++exceeded;
        if (room.used_bytes() > room.max_bytes()) ++exceeded;
        buffer.data()[bytes - 1] = 1;
        in_use -= bytes;
        ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(exceeded, 0);
  EXPECT_EQ(done, 16 * 200);
  EXPECT_LE(room.used_bytes(), room.max_bytes());
}

// A large file is not passed by small ones for ever: the room is granted in
// order.
TEST(FileRoomTest, SmallFilesDoNotPassALargeOne) {
  FileRoom room(FileRoom::Charge(kMiB));
  std::optional<FileRoom::Buffer> first;
  first.emplace(room, kMiB / 2);
  std::atomic<bool> large{false}, stop{false};
  std::thread waits([&] {
    const FileRoom::Buffer buffer(room, kMiB);
    large = true;
  });
  // Small files that would fit beside the first, again and again.
  std::vector<std::thread> small;
  for (int t = 0; t < 4; ++t) {
    small.emplace_back([&] {
      while (!stop) const FileRoom::Buffer buffer(room, 1000);
    });
  }
  EXPECT_FALSE(large);
  first.reset();
  waits.join();
  stop = true;
  for (std::thread& thread : small) thread.join();
  EXPECT_TRUE(large);
}

}  // namespace
}  // namespace millrace::storage
