#include "server/pipeline/memory_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/byte_size.h"

namespace millrace::pipeline {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

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
                    use.pipelines + use.elsewhere + use.batches,
                budget);
      EXPECT_EQ(use.pipelines, std::min(budget / 64, 32 * kMiB));
      EXPECT_LE(use.read_buffers, budget / 16);
      EXPECT_LE(use.recycled, 128 * kMiB);
    }
  }
  EXPECT_GT(PlanMemory(Needs(), 512 * kMiB, 0).batches, 0u);
}

TEST(MemoryUse, SaysWhatTakesIt) {
  const MemoryUse use = PlanMemory(Needs(), 512 * kMiB, 7);
  EXPECT_THAT(use.Sentence(), HasSubstr("the memory budget of 512 MiB less 192 "
                                        "MiB for decoding (4 threads x 48 "
                                        "MiB), "));
  EXPECT_THAT(use.Sentence(),
              HasSubstr(" and 7 B for caches and files that are read leaves "));
  // The size that a batch is compared with is exact.
  EXPECT_THAT(use.Sentence(),
              EndsWith("(" + std::to_string(use.batches) + " bytes)"));
}

// "11 MiB for up to 0 more threads".
TEST(MemoryUse, APartWithoutRoomForAThreadIsForNone) {
  MemoryNeeds needs = Needs();
  needs.max_threads = 64;
  const MemoryUse few = PlanMemory(needs, 300 * kMiB, 0);
  ASSERT_GT(few.more_scratch, 0u);
  ASSERT_EQ(few.more_threads, 0u);
  EXPECT_THAT(few.Sentence(),
              HasSubstr(FormatByteSize(few.more_scratch) +
                        " for more threads, too few for one, "));
  EXPECT_THAT(few.Sentence(), Not(HasSubstr("up to 0")));
  const MemoryUse many = PlanMemory(needs, 4096 * kMiB, 0);
  EXPECT_THAT(many.Sentence(),
              HasSubstr("for up to " + std::to_string(many.more_threads) +
                        " more threads, "));
}

// They are in memory whatever the budget is.
TEST(MemoryUse, FootersAreHeld) {
  MemoryNeeds needs = Needs();
  const MemoryUse without = PlanMemory(needs, 512 * kMiB, 7);
  EXPECT_THAT(without.Sentence(), Not(HasSubstr("footers")));
  needs.file_metadata = 100 * kMiB;
  const MemoryUse use = PlanMemory(needs, 512 * kMiB, 7);
  EXPECT_EQ(use.held(), without.held() + 100 * kMiB);
  EXPECT_EQ(use.batches, without.batches - 100 * kMiB);
  EXPECT_THAT(use.Sentence(),
              HasSubstr("100 MiB for the footers of Parquet files and the "
                        "lists of image folders and 7 B for "
                        "caches and files that are read leaves "));
  needs.file_metadata = 512 * kMiB;
  EXPECT_EQ(PlanMemory(needs, 512 * kMiB, 7).batches, 0u);
  const auto quarter = [](uint64_t budget) { return budget / 100 * 25; };
  EXPECT_GT(SmallestBudget(needs, 1, quarter), 512 * kMiB);
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

// Room for the threads that may come is set aside at the start.
TEST(MemoryUse, ThreadsThatMayComeHaveTheirRoom) {
  MemoryNeeds needs = Needs();
  needs.max_threads = 64;
  const MemoryUse use = PlanMemory(needs, 4096 * kMiB, 0);
  EXPECT_EQ(use.threads, 4u);
  EXPECT_EQ(use.more_scratch, 256 * kMiB);
  EXPECT_EQ(use.more_threads, 256u / 49)
      << "with a MiB each beside the scratch";
  EXPECT_EQ(use.held() + use.batches, 4096 * kMiB);
  EXPECT_THAT(use.Sentence(),
              HasSubstr("(4 threads x 48 MiB), 256 MiB for up to 5 more "
                        "threads, "));
  // All that may be, and no more.
  EXPECT_EQ(PlanMemory(needs, 1024 * 1024 * kMiB, 0).more_threads, 60u);
  needs.max_threads = needs.threads;
  EXPECT_EQ(PlanMemory(needs, 4096 * kMiB, 0).more_scratch, 0u);
}

TEST(MemoryUse, WhereTheNumberAdaptsLittleMemoryMeansFewerThreads) {
  MemoryNeeds needs = Needs();
  needs.max_threads = 64;
  EXPECT_EQ(PlanMemory(needs, 200 * kMiB, 0).threads, 2u);
  EXPECT_GT(PlanMemory(needs, 200 * kMiB, 0).batches, 0u);
  EXPECT_EQ(PlanMemory(needs, 90 * kMiB, 0).threads, 1u);
  EXPECT_EQ(PlanMemory(needs, 40 * kMiB, 0).batches, 0u) << "not even one";
}

// The initial threads took half of the budget, and the parts of a server with
// leases take more than the other half: 16 threads needed 713 MiB.
TEST(MemoryUse, TheInitialThreadsLeaveRoomForBatchesBesideLargeParts) {
  MemoryNeeds needs;
  needs.threads = 16;
  needs.max_threads = 64;
  needs.scratch_each = 16 * kMiB;
  needs.read_threads = 512;
  needs.reads_wait = true;
  const auto elsewhere = [](uint64_t budget) {
    return budget / 4 + budget / 16 + budget / 8;
  };
  const auto use = [&](uint64_t mib) {
    return PlanMemory(needs, mib * kMiB, elsewhere(mib * kMiB));
  };
  EXPECT_EQ(use(64).threads, 1u);
  EXPECT_GT(use(64).batches, 4 * kMiB);
  EXPECT_EQ(use(512).threads, 8u);
  EXPECT_GT(use(512).batches, 32 * kMiB);
  EXPECT_EQ(use(1024).threads, 16u);
  EXPECT_LT(SmallestBudget(needs, kMinBatchBytes + 1, elsewhere), 64 * kMiB);
  MemoryUse before;
  for (uint64_t mib = 16; mib < 4096; ++mib) {
    const MemoryUse now = use(mib);
    ASSERT_GE(now.batches, before.batches) << mib;
    ASSERT_GE(now.large_images, before.large_images) << mib;
    ASSERT_LE(now.held() + now.elsewhere + now.batches,
              std::max(mib, uint64_t{45}) * kMiB);
    before = now;
  }
}

// They came on top: one image took 256 MiB beside a budget of 32 MiB.
TEST(MemoryUse, LargeImagesArePartOfTheBudget) {
  MemoryNeeds needs = Needs();
  needs.scratch_each = 16 * kMiB;
  needs.threads = 2;
  needs.largest_image = 240 * kMiB;
  const MemoryUse small = PlanMemory(needs, 64 * kMiB, 0);
  EXPECT_EQ(small.large_images, 0u) << "the batches need all of it";
  EXPECT_EQ(small.largest_image, 240 * kMiB);
  EXPECT_THAT(small.Sentence(), Not(HasSubstr("large images")));
  for (const uint64_t budget : {128 * kMiB, 512 * kMiB, 4096 * kMiB}) {
    const MemoryUse use = PlanMemory(needs, budget, 7);
    EXPECT_GT(use.large_images, 0u);
    EXPECT_EQ(use.held() + use.elsewhere + use.batches, budget);
    EXPECT_GE(use.batches, 2 * use.large_images);
    EXPECT_THAT(use.Sentence(),
                HasSubstr(", " + FormatByteSize(use.large_images) +
                          " for large images and 7 B for "));
  }
  EXPECT_EQ(PlanMemory(needs, 4096 * kMiB, 0).large_images, 240 * kMiB);
  needs.largest_image = 0;  // no images
  EXPECT_EQ(PlanMemory(needs, 4096 * kMiB, 0).large_images, 0u);
}

// What SmallestBudget() relies on.
TEST(MemoryUse, ALargerBudgetNeverLeavesLess) {
  MemoryNeeds needs = Needs();
  needs.max_threads = 64;
  needs.reads_wait = true;
  for (const uint64_t largest_image : {0 * kMiB, 240 * kMiB}) {
    needs.largest_image = largest_image;
    MemoryUse before;
    for (uint64_t budget = 16 * kMiB; budget < 8192 * kMiB; budget += kMiB) {
      const MemoryUse use = PlanMemory(needs, budget, 0);
      ASSERT_GE(use.batches, before.batches) << budget;
      ASSERT_GE(use.large_images, before.large_images) << budget;
      ASSERT_GE(use.threads, 1u);
      before = use;
    }
  }
}

TEST(BatchMemory, SaysHowManyFit) {
  BatchMemory batch;
  batch.rows = 16;
  batch.row_bytes = 6291458;
  batch.payload = 100663360;
  batch.beside = 4096;
  batch.budget = 300 * kMiB;
  batch.budget_arithmetic = "the memory budget leaves 300 MiB";
  EXPECT_THAT(batch.Sentence(),
              HasSubstr("a batch takes 96 MiB (16 rows x 6291458 bytes = 96 "
                        "MiB with alignment, plus up to 4 KiB to build"));
  EXPECT_THAT(batch.Sentence(), HasSubstr("3 of these batches fit at a time"));
  batch.rows = 1;
  batch.budget = batch.reserved();
  EXPECT_THAT(batch.Sentence(), HasSubstr("(1 row x 6291458"));
  EXPECT_THAT(batch.Sentence(), HasSubstr("1 of these batches fits at a time"));
}

}  // namespace
}  // namespace millrace::pipeline
