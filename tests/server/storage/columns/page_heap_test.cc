#include "server/storage/columns/page_heap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <random>
#include <vector>

#include "common/thread.h"

namespace millrace::storage {
namespace {

constexpr uint64_t kKiB = 1 << 10;
constexpr uint64_t kMiB = 1 << 20;

// Bytes of the range that have a page.
uint64_t Resident(const uint8_t* data, uint64_t bytes) {
  std::vector<unsigned char> pages(bytes / PageHeap::kPageBytes);
  EXPECT_EQ(mincore(const_cast<uint8_t*>(data), bytes, pages.data()), 0);
  uint64_t resident = 0;
  for (const unsigned char page : pages) {
    resident += page % 2 * PageHeap::kPageBytes;
  }
  return resident;
}

TEST(PageHeapTest, WhatIsFreedIsHandedOutAgain) {
  PageHeap heap;
  uint8_t* const a = heap.Take(kMiB);
  uint8_t* const behind = heap.Take(kMiB);
  ASSERT_NE(a, nullptr);
  ASSERT_NE(behind, nullptr);
  EXPECT_EQ(reinterpret_cast<uint64_t>(a) % PageHeap::kPageBytes, 0);
  std::memset(a, 1, kMiB);
  heap.Give(a, kMiB);
  EXPECT_EQ(heap.idle_bytes(), kMiB);
  uint8_t* const b = heap.Take(kMiB - 10);
  EXPECT_EQ(b, a);
  EXPECT_EQ(Resident(b, kMiB), kMiB);
  heap.Give(b, kMiB - 10);
  heap.Give(behind, kMiB);
}

TEST(PageHeapTest, HasNoMorePagesThanWereInUseAndALittle) {
  PageHeap heap;
  constexpr uint64_t kRanges = 200;
  // Of another length each time, so that what is freed fits nobody: without a
  // bound the heap would grow each time.
  uint64_t resident = 0;
  for (uint64_t pages = 200; pages < 210; ++pages) {
    const uint64_t bytes = pages * PageHeap::kPageBytes;
    std::vector<uint8_t*> ranges;
    std::vector<uint8_t*> others;
    for (uint64_t i = 0; i < kRanges; ++i) {
      ranges.push_back(heap.Take(bytes));
      others.push_back(heap.Take(PageHeap::kPageBytes));  // keeps them apart
      std::memset(ranges.back(), 1, bytes);
      *others.back() = 1;
    }
    for (uint8_t* range : ranges) heap.Give(range, bytes);
    resident = 0;
    for (uint8_t* range : ranges) resident += Resident(range, bytes);
    EXPECT_GT(resident, 0);
    const uint64_t peak = kRanges * (bytes + PageHeap::kPageBytes);
    EXPECT_LE(heap.idle_bytes(),
              PageHeap::MaxIdleBytes(kRanges * PageHeap::kPageBytes, peak));
    for (uint8_t* other : others) heap.Give(other, PageHeap::kPageBytes);
    EXPECT_LE(heap.idle_bytes(), PageHeap::MaxIdleBytes(0, peak));
  }
}

TEST(PageHeapTest, AnIdleRangeIsHardlyCut) {
  PageHeap heap;
  uint8_t* const a = heap.Take(2 * kMiB);
  uint8_t* const behind = heap.Take(kMiB);
  EXPECT_EQ(heap.TakeIdle(kMiB), nullptr);
  heap.Give(a, 2 * kMiB);
  EXPECT_EQ(heap.TakeIdle(kMiB), nullptr);
  EXPECT_EQ(heap.TakeIdle(2 * kMiB - 100 * kKiB), a);
  heap.Give(a, 2 * kMiB - 100 * kKiB);
  heap.Give(behind, kMiB);
}

TEST(PageHeapTest, NeighboursBecomeOneRange) {
  PageHeap heap;
  uint8_t* const data = heap.Take(3 * kMiB);
  uint8_t* const behind = heap.Take(kMiB);
  // In parts, the middle one last.
  heap.Give(data, kMiB);
  heap.Give(data + 2 * kMiB, kMiB);
  heap.Give(data + kMiB, kMiB);
  EXPECT_EQ(heap.Take(3 * kMiB), data);
  heap.Give(data, 3 * kMiB);
  heap.Give(behind, kMiB);
}

TEST(PageHeapTest, RangesGrowAndShrinkWhereTheyLie) {
  PageHeap heap;
  uint8_t* const data = heap.Take(kMiB);
  uint8_t* const behind = heap.Take(kMiB);
  std::memset(data, 7, kMiB);
  EXPECT_FALSE(heap.Resize(data, kMiB, 2 * kMiB));
  EXPECT_TRUE(heap.Resize(data, kMiB, 100 * kKiB));
  EXPECT_EQ(heap.idle_bytes(), kMiB - 100 * kKiB);
  EXPECT_TRUE(heap.Resize(data, 100 * kKiB, 200 * kKiB));
  heap.Give(behind, kMiB);
  EXPECT_TRUE(heap.Resize(data, 200 * kKiB, 2 * kMiB));
  EXPECT_EQ(data[100 * kKiB - 1], 7);
  heap.Give(data, 2 * kMiB);
}

TEST(PageHeapTest, RangesLargerThanAChunk) {
  PageHeap heap;
  const uint64_t bytes = PageHeap::kChunkBytes + 1;
  uint8_t* const data = heap.Take(bytes);
  ASSERT_NE(data, nullptr);
  data[0] = data[bytes - 1] = 1;
  heap.Give(data, bytes);
  EXPECT_LE(heap.idle_bytes(), PageHeap::MaxIdleBytes(0, bytes + 4095));
  EXPECT_EQ(heap.Take(uint64_t{1} << 60), nullptr);
}

// Every range is written through and through by the thread that has it.
TEST(PageHeapTest, RangesOfManyThreadsDoNotOverlap) {
  PageHeap heap;
  std::vector<NamedThread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back("test", [&heap, t] {
      std::minstd_rand random(t);
      struct Held {
        uint8_t* data;
        uint64_t bytes;
        uint8_t fill;
      };
      std::vector<Held> held;
      const auto check = [](const Held& range) {
        for (uint64_t i = 0; i < range.bytes; i += 512) {
          ASSERT_EQ(range.data[i], range.fill);
        }
      };
      for (int i = 0; i < 2000; ++i) {
        if (held.size() == 20) {
          std::swap(held[random() % 20], held.back());
          check(held.back());
          heap.Give(held.back().data, held.back().bytes);
          held.pop_back();
        }
        const uint64_t bytes = 1 + random() % (300 * kKiB);
        Held range = {heap.Take(bytes), bytes, static_cast<uint8_t>(i + t)};
        std::memset(range.data, range.fill, bytes);
        const uint64_t resized = 1 + random() % (300 * kKiB);
        if (heap.Resize(range.data, bytes, resized)) {
          range.bytes = resized;
          std::memset(range.data, range.fill, resized);
        }
        held.push_back(range);
      }
      for (const Held& range : held) {
        check(range);
        heap.Give(range.data, range.bytes);
      }
    });
  }
  threads.clear();
  // As many as there may have been at a time.
  constexpr uint64_t kMax = 4 * 21 * 301 * kKiB * 2;
  EXPECT_LE(heap.idle_bytes(), PageHeap::MaxIdleBytes(0, kMax));
}

}  // namespace
}  // namespace millrace::storage
