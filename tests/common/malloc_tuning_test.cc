#include "common/malloc_tuning.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace millrace {
namespace {

// First: malloc uses free memory in the heap before it makes a mapping. With
// glibc's defaults the first block raises the threshold, and the second one
// stays in the process.
TEST(MallocTuningTest, LargeBlocksGoBackWhenTheyAreFreed) {
  ReturnLargeBlocks();
  const struct mallinfo2 before = mallinfo2();
  for (int i = 0; i < 3; ++i) {
    char* block = static_cast<char*>(std::malloc(kLargeBlockBytes));
    ASSERT_NE(block, nullptr);
    std::memset(block, 1, kLargeBlockBytes);
    const struct mallinfo2 held = mallinfo2();
    EXPECT_GE(held.hblkhd, before.hblkhd + kLargeBlockBytes) << i;
    std::free(block);
    const struct mallinfo2 freed = mallinfo2();
    EXPECT_EQ(freed.hblkhd, before.hblkhd) << i;
    EXPECT_EQ(freed.arena, before.arena) << i;
  }
}

// With glibc's defaults the first block of 16 MiB is a mapping of its own,
// which goes back to the system when it is freed.
TEST(MallocTuningTest, FreedBlocksStayInTheProcess) {
  constexpr size_t kBlock = 16 << 20;
  KeepFreedMemory();
  char* block = static_cast<char*>(std::malloc(kBlock));
  ASSERT_NE(block, nullptr);
  std::memset(block, 1, kBlock);
  const struct mallinfo2 held = mallinfo2();
  EXPECT_EQ(held.hblkhd, 0u) << "the block is a mapping of its own";
  std::free(block);
  const struct mallinfo2 freed = mallinfo2();
  EXPECT_EQ(freed.arena, held.arena) << "the heap gave memory back";
  EXPECT_GE(freed.fordblks, kBlock);
}

}  // namespace
}  // namespace millrace
