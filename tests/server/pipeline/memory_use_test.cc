#include "server/pipeline/memory_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

MemoryNeeds Needs() {
  MemoryNeeds needs;
  needs.threads = 4;
  needs.scratch_each = 48 * kMiB;
  needs.read_threads = 32;
  return needs;
}

TEST(MemoryUse, TheSumIsTheBudget) {
  for (const bool waits : {false, true}) {
    MemoryNeeds needs = Needs();
    needs.reads_wait = waits;
    for (const uint64_t budget : {300 * kMiB, 512 * kMiB, 64 * 1024 * kMiB}) {
      const MemoryUse use = PlanMemory(needs, budget, budget / 100 * 25);
      EXPECT_EQ(use.scratch(), 192 * kMiB);
      if (use.batches == 0) continue;
      EXPECT_EQ(use.scratch() + use.read_buffers + use.recycled +
                    use.elsewhere + use.batches,
                budget);
      EXPECT_LE(use.read_buffers, budget / 16);
      EXPECT_LE(use.recycled, 128 * kMiB);
    }
  }
  EXPECT_GT(PlanMemory(Needs(), 512 * kMiB, 0).batches, 0u);
}

TEST(MemoryUse, SaysWhatTakesIt) {
  const MemoryUse use = PlanMemory(Needs(), 512 * kMiB, 7);
  EXPECT_THAT(use.Sentence(), HasSubstr("the memory budget of 536870912 bytes "
                                        "less 201326592 for decoding (4 "
                                        "threads x 50331648)"));
  EXPECT_THAT(use.Sentence(), HasSubstr("7 for caches leaves "));
}

TEST(MemoryUse, NothingIsLeftWhenThreadsTakeAll) {
  EXPECT_EQ(PlanMemory(Needs(), 192 * kMiB, 0).batches, 0u);
  EXPECT_EQ(PlanMemory(Needs(), 512 * kMiB, 400 * kMiB).batches, 0u);
}

TEST(MemoryUse, TheSmallestBudgetWorksAndTheNextSmallerDoesNot) {
  const auto quarter = [](uint64_t budget) { return budget / 100 * 25; };
  for (const uint64_t wanted : {uint64_t{4097}, 100 * kMiB, 4096 * kMiB}) {
    const uint64_t smallest = SmallestBudget(Needs(), wanted, quarter);
    EXPECT_EQ(smallest % kMiB, 0u);
    EXPECT_GE(PlanMemory(Needs(), smallest, quarter(smallest)).batches, wanted);
    const uint64_t less = smallest - kMiB;
    EXPECT_LT(PlanMemory(Needs(), less, quarter(less)).batches, wanted);
  }
  // Caches that take all of every budget.
  EXPECT_EQ(SmallestBudget(Needs(), 1, [](uint64_t budget) { return budget; }),
            0u);
}

TEST(BatchMemory, SaysHowManyFit) {
  BatchMemory batch;
  batch.rows = 16;
  batch.row_bytes = 6291458;
  batch.payload = 100663360;
  batch.beside = 4096;
  batch.budget = 300 * kMiB;
  batch.budget_arithmetic = "the memory budget leaves 314572800";
  EXPECT_THAT(batch.Sentence(),
              HasSubstr("a batch takes 100667456 bytes (16 rows x 6291458"));
  EXPECT_THAT(batch.Sentence(), HasSubstr("of which 3 fit at a time"));
}

}  // namespace
}  // namespace millrace
