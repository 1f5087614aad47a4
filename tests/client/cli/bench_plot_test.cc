// Where the bars and words of a plot stand. Nothing is drawn.

#include "client/cli/bench_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>
#include <vector>

namespace millrace::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

BenchRow Row(const std::string& window, const std::vector<double>& rates) {
  BenchRow row;
  row.setting.values = {{"window", window}};
  for (const double rate : rates) {
    row.rounds.emplace_back().images_per_second = rate;
  }
  return row;
}

template <typename T>
std::vector<T> ItemsOf(const picture::Picture& picture) {
  std::vector<T> items;
  for (const picture::PictureItem& item : picture.items) {
    if (const T* one = std::get_if<T>(&item)) items.push_back(*one);
  }
  return items;
}

const picture::PictureText& TextOf(const picture::Picture& plot,
                                   const std::string& text) {
  for (const picture::PictureItem& item : plot.items) {
    const auto* one = std::get_if<picture::PictureText>(&item);
    if (one != nullptr && one->text == text) return *one;
  }
  ADD_FAILURE() << "no text " << text;
  static const picture::PictureText none;
  return none;
}

// The bar and the parts of the line beside a label.
std::vector<picture::PictureFill> FillsBeside(const picture::Picture& plot,
                                              const std::string& label) {
  const picture::PictureBox box = TextOf(plot, label).box;
  const double middle = box.top + box.height / 2;
  std::vector<picture::PictureFill> fills;
  for (const picture::PictureFill& fill : ItemsOf<picture::PictureFill>(plot)) {
    const bool grid = fill.box.width == 1;
    if (!grid && fill.box.top <= middle && fill.box.bottom() >= middle) {
      fills.push_back(fill);
    }
  }
  return fills;
}

// What must be true of every plot.
void CheckPlot(const picture::Picture& plot) {
  std::vector<picture::PictureBox> taken;
  for (const picture::PictureText& text : ItemsOf<picture::PictureText>(plot)) {
    EXPECT_GE(text.size, 12) << text.text;
    EXPECT_GE(text.box.height, 1.17 * text.size) << text.text;
    taken.push_back(text.box);
  }
  for (size_t i = 0; i < taken.size(); ++i) {
    const picture::PictureBox& a = taken[i];
    EXPECT_GE(a.left, 20);
    EXPECT_GE(a.top, 20);
    EXPECT_LE(a.right(), plot.width - 20);
    EXPECT_LE(a.bottom(), plot.height - 20);
    for (size_t j = 0; j < i; ++j) {
      const picture::PictureBox& b = taken[j];
      EXPECT_FALSE(a.left < b.right() && b.left < a.right() &&
                   a.top < b.bottom() && b.top < a.bottom())
          << i << " " << j;
    }
  }
  for (const picture::PictureFill& fill : ItemsOf<picture::PictureFill>(plot)) {
    EXPECT_TRUE(std::isfinite(fill.box.left + fill.box.width));
    EXPECT_GE(fill.box.left, 20);
    EXPECT_LE(fill.box.right(), plot.width - 20);
    EXPECT_LE(fill.box.bottom(), plot.height - 20);
  }
}

const BenchPlotHead kHead = {
    "millrace bench: photos",
    {"servers data-1:7001, 3 rounds of 3s", "2026-11-24 05:53 UTC, host a"}};

TEST(BenchPlot, BarsAreMediansAndLinesReachFromTheWorstToTheBestRound) {
  const picture::Picture plot = LayOutBenchPlot(
      {Row("4", {80, 100, 120}), Row("16", {200, 200, 200})}, kHead);
  CheckPlot(plot);
  const auto slow = FillsBeside(plot, "window=4");
  const auto fast = FillsBeside(plot, "window=16");
  ASSERT_EQ(slow.size(), 4u);  // bar, line, two ends
  ASSERT_EQ(fast.size(), 4u);
  const picture::PictureBox& bar = slow[0].box;
  EXPECT_EQ(bar.left, fast[0].box.left);
  EXPECT_DOUBLE_EQ(bar.width * 2, fast[0].box.width);
  const double unit = bar.width / 100;
  EXPECT_DOUBLE_EQ(slow[1].box.left + 1, bar.left + 80 * unit);
  EXPECT_DOUBLE_EQ(slow[1].box.right() - 1, bar.left + 120 * unit);
  EXPECT_EQ(slow[2].box.left, slow[1].box.left);
  EXPECT_EQ(slow[3].box.right(), slow[1].box.right());
  // The axis ends at 200, with its unit below.
  const picture::PictureBox end = TextOf(plot, "200").box;
  EXPECT_NEAR(end.left + end.width / 2, fast[0].box.right(), 1);
  EXPECT_GT(TextOf(plot, "images per second").box.top, end.top);
  EXPECT_EQ(TextOf(plot, "100 (80 - 120)").box.top,
            TextOf(plot, "window=4").box.top);
}

TEST(BenchPlot, SaysWhatWhenAndWhere) {
  const picture::Picture plot = LayOutBenchPlot({Row("4", {12345})}, kHead);
  CheckPlot(plot);
  EXPECT_TRUE(TextOf(plot, kHead.title).bold);
  TextOf(plot, kHead.lines[0]);
  TextOf(plot, kHead.lines[1]);
  TextOf(plot, "12,345 (1 round)");
}

TEST(BenchPlot, TheBestAndTheSettingsWithinNoiseStandOut) {
  const picture::Picture plot = LayOutBenchPlot(
      {Row("4", {100, 110}), Row("16", {200, 230}), Row("64", {190, 201})},
      kHead);
  const picture::Rgb slow = FillsBeside(plot, "window=4")[0].color;
  const picture::Rgb best = FillsBeside(plot, "window=16")[0].color;
  const picture::Rgb alike = FillsBeside(plot, "window=64")[0].color;
  EXPECT_FALSE(best == slow);
  EXPECT_FALSE(best == alike);
  EXPECT_FALSE(alike == slow);
}

TEST(BenchPlot, SettingsThatFailedSayWhy) {
  BenchRow failed = Row("64", {});
  failed.error = "no\nroom";
  const picture::Picture plot = LayOutBenchPlot({failed, Row("4", {})}, kHead);
  CheckPlot(plot);
  TextOf(plot, "failed: no\\nroom");
  TextOf(plot, "not run");
  EXPECT_TRUE(FillsBeside(plot, "window=64").empty());
}

TEST(BenchPlot, LongNamesAndManySettingsKeepTheirPlaces) {
  std::vector<BenchRow> rows(256, Row(std::string(200, 'W'), {0.4, 0.5}));
  rows[0].rounds[0].images_per_second = 123456789;
  BenchPlotHead head = kHead;
  head.title = std::string(300, 'W');
  head.lines[0] = "a " + std::string(900, 'x');
  const picture::Picture plot = LayOutBenchPlot(rows, head);
  CheckPlot(plot);
  EXPECT_LT(plot.width, 1500);
  EXPECT_LT(plot.height, picture::kMaxPictureSide);
}

}  // namespace
}  // namespace millrace::cli
