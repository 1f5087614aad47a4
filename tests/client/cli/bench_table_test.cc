#include "client/cli/bench_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::cli {
namespace {

using ::testing::HasSubstr;

BenchRow Row(const std::string& window, const std::vector<double>& rates) {
  BenchRow row;
  row.setting.values = {{"window", window}};
  for (const double rate : rates) {
    BenchFigures figures;
    figures.images_per_second = rate;
    figures.gigabytes_per_second = rate * 150528e-9;
    figures.cpu_seconds_per_gigabyte = 0.25;
    figures.wait_share = 0.5;
    figures.first_batch_ms = 12;
    row.rounds.push_back(figures);
  }
  return row;
}

TEST(BenchTableTest, TheMiddleOfTheRoundsAndTheirEnds) {
  const BenchSpread odd =
      Spread(Row("4", {30, 10, 20}), &BenchFigures::images_per_second);
  EXPECT_EQ(odd.median, 20);
  EXPECT_EQ(odd.min, 10);
  EXPECT_EQ(odd.max, 30);
  EXPECT_EQ(Spread(Row("4", {10, 40, 20, 30}), &BenchFigures::images_per_second)
                .median,
            25);
  EXPECT_EQ(Spread(Row("4", {}), &BenchFigures::images_per_second).median, 0);
}

TEST(BenchTableTest, RowsOfNumbersUnderTheKnobsNames) {
  BenchRow failed = Row("64", {});
  failed.error = "no room";
  EXPECT_EQ(
      BenchTable({Row("4", {12000, 11000, 12345.6}), Row("16", {900}), failed}),
      "window  images/s  spread           GB/s   CPU s/GB  waited  first "
      "batch\n"
      "4       12,000    11,000 - 12,346  1.81   0.250     50 %    12 ms\n"
      "16      900       1 round          0.135  0.250     50 %    12 ms\n"
      "64      no room\n");
}

// The rates of three batches stood there like those of thousands.
TEST(BenchTableTest, RatesOfFewBatchesSaySo) {
  EXPECT_THAT(FewBatchesText(1, 0),
              HasSubstr("the rates come from 1 batch, which is too few"));
  EXPECT_THAT(FewBatchesText(9, 0), HasSubstr("9 batches, which is too few"));
  EXPECT_EQ(FewBatchesText(10, 0), "");
  EXPECT_THAT(FewBatchesText(40, 64),
              HasSubstr("from 40 batches, all requested before the "
                        "measurement began (window 64)"));
  EXPECT_EQ(FewBatchesText(65, 64), "");

  BenchRow few = Row("16", {1, 2});
  few.rounds[0].batches = 12;
  few.rounds[1].batches = 3;
  few.rounds[1].few = true;
  EXPECT_EQ(FewBatchesNote({Row("4", {1}), few}),
            "rates from too few batches: window=16 (3 batches in a round); "
            "measure more batches (--batches, --seconds or --epochs)");
  EXPECT_EQ(FewBatchesNote({Row("4", {1})}), "");
  EXPECT_THAT(BenchRowsJson({few}),
              HasSubstr("\"batches_least\": 3, \"few_batches\": true"));
}

TEST(BenchTableTest, TheBestIsNamedWithTheSettingsWithinNoise) {
  EXPECT_EQ(BestSetting({Row("4", {100, 101, 102}), Row("16", {200, 210, 220}),
                         Row("64", {190, 195, 205})}),
            "best: window=16 with 210 images/s, 2.08 times the slowest; within "
            "noise of the best: window=64");
  EXPECT_EQ(BestSetting({Row("4", {100}), Row("16", {250})}),
            "best: window=16 with 250 images/s, 2.50 times the slowest");
  EXPECT_EQ(BestSetting({Row("4", {1234})}),
            "best: window=4 with 1,234 images/s");
  EXPECT_EQ(BestSetting({Row("4", {})}), "");
}

TEST(BenchTableTest, ProgramsGetEveryFigure) {
  BenchRow failed = Row("64", {});
  failed.error = "no \"room\"";
  EXPECT_EQ(BenchRowsJson({Row("4", {100, 300}), failed}),
            "[{\"setting\": {\"window\": \"4\"}, \"rounds\": 2, "
            "\"images_per_second\": 200, \"images_per_second_least\": 100, "
            "\"images_per_second_most\": 300, "
            "\"gigabytes_per_second\": 0.0301056, "
            "\"gigabytes_per_second_least\": 0.0150528, "
            "\"gigabytes_per_second_most\": 0.0451584, "
            "\"client_cpu_seconds_per_gigabyte\": 0.25, "
            "\"client_cpu_seconds_per_gigabyte_least\": 0.25, "
            "\"client_cpu_seconds_per_gigabyte_most\": 0.25, "
            "\"wait_share\": 0.5, \"wait_share_least\": 0.5, "
            "\"wait_share_most\": 0.5, \"time_to_first_batch_ms\": 12, "
            "\"time_to_first_batch_ms_least\": 12, "
            "\"time_to_first_batch_ms_most\": 12, \"batches_least\": 0, "
            "\"few_batches\": false}, "
            "{\"setting\": {\"window\": \"64\"}, \"rounds\": 0, "
            "\"error\": \"no \\\"room\\\"\"}]");
}

}  // namespace
}  // namespace millrace::cli
