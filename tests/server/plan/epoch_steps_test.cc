#include "server/plan/epoch_steps.h"

#include <gtest/gtest.h>

#include <vector>

namespace millrace::plan {
namespace {

EpochSteps Table(uint64_t samples, uint64_t batch, LastBatch last) {
  auto table = EpochSteps::Create(samples, batch, last);
  EXPECT_TRUE(table.ok()) << table.status();
  return *table;
}

TEST(EpochStepsTest, DropLeavesTheRestOut) {
  const EpochSteps table = Table(103, 10, LAST_BATCH_DROP);
  EXPECT_EQ(table.steps(), 10u);
  EXPECT_EQ(table.dropped(), 3u);
  EXPECT_EQ(Table(100, 10, LAST_BATCH_DROP).dropped(), 0u);
}

TEST(EpochStepsTest, DropRefusesFewerSamplesThanABatch) {
  const auto table = EpochSteps::Create(9, 10, LAST_BATCH_DROP);
  EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(table.status().message().find("10 is larger than the 9 samples"),
            std::string::npos);
  EXPECT_NE(table.status().message().find("or set last_batch: LAST_BATCH_PAD"),
            std::string::npos);
}

// For every policy and world size: slices of the ranks follow each other
// without gap or overlap, and all valid positions come exactly once.
TEST(EpochStepsTest, RanksCoverEveryPositionOnce) {
  for (LastBatch last : {LAST_BATCH_DROP, LAST_BATCH_PAD, LAST_BATCH_PARTIAL}) {
    for (uint64_t samples : {12, 13, 17, 23, 24, 25, 100}) {
      for (uint32_t world : {1, 2, 3, 4, 6, 12}) {
        const EpochSteps table = Table(samples, 12, last);
        std::vector<int> visits(samples, 0);
        for (uint64_t step = 0; step < table.steps(); ++step) {
          uint64_t next = step * 12, valid = 0;
          for (uint32_t rank = 0; rank < world; ++rank) {
            const auto rows = table.Rows(step, rank, world);
            ASSERT_TRUE(rows.ok()) << rows.status();
            ASSERT_EQ(rows->first, next);
            ASSERT_LE(rows->rows, table.MaxRows(world));
            ASSERT_LE(rows->valid, rows->rows);
            next += rows->rows;
            valid += rows->valid;
            for (uint64_t i = 0; i < rows->valid; ++i) {
              ++visits[rows->first + i];
            }
            if (last != LAST_BATCH_PARTIAL) {
              ASSERT_EQ(rows->rows, 12u / world);
            }
          }
          for (uint32_t rank = 0; rank < world; ++rank) {
            ASSERT_EQ(table.Rows(step, rank, world)->global_valid, valid);
          }
        }
        uint64_t visited = 0;
        for (int v : visits) {
          ASSERT_LE(v, 1);
          visited += v;
        }
        EXPECT_EQ(visited + table.dropped(), samples);
      }
    }
  }
}

TEST(EpochStepsTest, PadFillsTheLastBatchWithPadding) {
  const EpochSteps table = Table(25, 12, LAST_BATCH_PAD);
  EXPECT_EQ(table.steps(), 3u);
  EXPECT_EQ(table.Rows(2, 0, 2)->valid, 1u);
  EXPECT_EQ(table.Rows(2, 0, 2)->rows, 6u);
  EXPECT_EQ(table.Rows(2, 1, 2)->valid, 0u);
  EXPECT_EQ(table.Rows(2, 1, 2)->rows, 6u);
  EXPECT_EQ(table.Rows(2, 1, 2)->global_valid, 1u);
}

TEST(EpochStepsTest, PartialMayGiveARankNothing) {
  const EpochSteps table = Table(25, 12, LAST_BATCH_PARTIAL);
  EXPECT_EQ(table.Rows(2, 0, 2)->rows, 0u);
  EXPECT_EQ(table.Rows(2, 1, 2)->rows, 1u);
}

TEST(EpochStepsTest, FewerSamplesThanABatchWithPadAndPartial) {
  EXPECT_EQ(Table(3, 12, LAST_BATCH_PAD).steps(), 1u);
  EXPECT_EQ(Table(3, 12, LAST_BATCH_PARTIAL).Rows(0, 0, 1)->rows, 3u);
}

TEST(EpochStepsTest, AWorldThatDoesNotDivideNamesTheNearestThatDo) {
  const EpochSteps table = Table(100, 12, LAST_BATCH_DROP);
  const absl::Status five = table.CheckWorld(5);
  EXPECT_EQ(five.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(five.message().find("4 and 6"), std::string::npos) << five;
  const absl::Status more = table.CheckWorld(13);
  EXPECT_EQ(more.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(more.message().find("are 12"), std::string::npos) << more;
  EXPECT_EQ(table.CheckWorld(0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(table.CheckWorld(0xffffffffu).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(EpochStepsTest, RefusesRanksAndStepsThatDoNotExist) {
  const EpochSteps table = Table(100, 12, LAST_BATCH_DROP);
  EXPECT_EQ(table.Rows(0, 2, 2).status().code(),
            absl::StatusCode::kInvalidArgument);
  const absl::Status past = table.Rows(8, 0, 1).status();
  EXPECT_EQ(past.code(), absl::StatusCode::kOutOfRange);
  EXPECT_NE(past.message().find("8 steps (0 .. 7)"), std::string::npos);
}

}  // namespace
}  // namespace millrace::plan
