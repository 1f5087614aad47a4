#include "trainer/memory_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace::trainer {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

// 10 MiB a row, 200 MiB without any, 1,000 MiB in all: 700 MiB for rows.
StepMemory Memory() {
  return {.rows = 128,
          .world_size = 2,
          .outside = 200 * kMiB,
          .peak = (200 + 1280) * kMiB,
          .available = 1000 * kMiB,
          .ran_before = true};
}

TEST(MemoryAdvice, FindsTheRowsThatFit) {
  // (0.9 * 1000 - 200) / 10 = 70, of which people choose 64.
  EXPECT_EQ(RowsThatFit(Memory()), 64u);
  StepMemory memory = Memory();
  memory.available = 1300 * kMiB;  // 97
  EXPECT_EQ(RowsThatFit(memory), 96u);
  memory.available = 290 * kMiB;  // 6.1
  EXPECT_EQ(RowsThatFit(memory), 6u);
}

TEST(MemoryAdvice, IsAlwaysBelowWhatFailed) {
  StepMemory memory = Memory();
  memory.available = 100000 * kMiB;
  EXPECT_LT(RowsThatFit(memory), 128u);
  EXPECT_GE(RowsThatFit(memory), 96u);
  // The first step of this size: what it took is only a part of what it needs.
  memory.ran_before = false;
  EXPECT_EQ(RowsThatFit(memory), 64u);
  memory.rows = 1;
  EXPECT_EQ(RowsThatFit(memory), 0u);
}

TEST(MemoryAdvice, SaysWhatToTry) {
  EXPECT_EQ(MemoryAdvice(Memory()),
            "a row of the batch takes about 10.0 MiB; 200.0 MiB of 1000.0 MiB "
            "are used without any row: about 64 of 128 rows per rank would "
            "fit; try --batch_size=128 (2 ranks)");
  StepMemory memory = Memory();
  memory.ran_before = false;
  memory.world_size = 1;
  EXPECT_THAT(MemoryAdvice(memory), HasSubstr("takes at least 10.0 MiB"));
  EXPECT_THAT(MemoryAdvice(memory),
              HasSubstr("at most 64 of 128 rows per rank would fit; try "
                        "--batch_size=64"));
}

TEST(MemoryAdvice, AdmitsWhatItDoesNotKnow) {
  EXPECT_EQ(MemoryAdvice({.rows = 32, .world_size = 2}),
            "try a --batch_size below 64");
  StepMemory memory = Memory();
  memory.available = 210 * kMiB;
  EXPECT_EQ(RowsThatFit(memory), 0u);
  EXPECT_THAT(MemoryAdvice(memory), HasSubstr("not a single row fits"));
  EXPECT_EQ(RowsThatFit({}), 0u);
}

}  // namespace
}  // namespace millrace::trainer
