#include "client/cli/bench_plot.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/clean_text.h"
#include "common/count_text.h"
#include "common/picture/text_lines.h"

namespace millrace::cli {
namespace {

constexpr double kMargin = 28;
constexpr double kGap = 12;  // between labels, bars and values
constexpr double kMinLabels = 90;
constexpr double kMaxLabels = 420;
constexpr double kBars = 560;    // width of the axis
constexpr double kValues = 260;  // width of the column of figures
constexpr double kRow = 28;
constexpr double kBar = 16;
constexpr double kCap = 8;  // height of a line's ends
constexpr int kTicks = 5;

constexpr double kTitleSize = 18;
constexpr double kTextSize = 13;
constexpr double kSmallSize = 12;
constexpr int kMaxLines = 3;  // that a text of the head may take
constexpr size_t kMaxBytes = 500;

constexpr picture::Rgb kInk = {32, 33, 36};
constexpr picture::Rgb kPale = {95, 99, 104};
constexpr picture::Rgb kGrid = {224, 226, 229};
constexpr picture::Rgb kBest = {34, 170, 119};
constexpr picture::Rgb kAlike = {146, 209, 183};
constexpr picture::Rgb kOther = {158, 181, 199};
constexpr picture::Rgb kFailed = {170, 20, 20};

constexpr auto kImages = &BenchFigures::images_per_second;

// A round number of at least `value`, not much larger.
double RoundUp(double value) {
  if (!(value > 0)) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0}) {
    if (step * power >= value) return step * power;
  }
  return 10 * power;
}

class Plot {
 public:
  explicit Plot(const std::vector<BenchRow>& rows)
      : rows_(rows), best_(BestRow(rows)) {
    double max = 0;
    double labels = kMinLabels;
    for (const BenchRow& row : rows) {
      max = std::max(max, Spread(row, kImages).max);
      labels = std::max(
          labels, picture::EstimatedTextWidth(row.setting.Name(), kTextSize));
    }
    scale_ = RoundUp(max);
    labels_ = std::min(std::ceil(labels), kMaxLabels);
    axis_ = kMargin + labels_ + kGap;
    values_ = axis_ + kBars + kGap;
    picture_.width = static_cast<int>(values_ + kValues + kMargin);
  }

  picture::Picture LayOut(const BenchPlotHead& head) {
    double top = kMargin;
    AddHead(head.title, kTitleSize, kInk, top);
    for (const std::string& line : head.lines) {
      AddHead(line, kSmallSize, kPale, top);
    }
    top += kGap;
    AddText("median (worst - best round)", values_, top, kValues, kSmallSize,
            kPale, picture::PictureText::Align::kLeft);
    top += picture::TextLineHeight(kSmallSize);
    const double bottom = top + kRow * static_cast<double>(rows_.size());
    AddAxis(top, bottom);
    for (const BenchRow& row : rows_) {
      AddRow(row, top);
      top += kRow;
    }
    picture_.height = static_cast<int>(
        bottom + kGap + 3 * picture::TextLineHeight(kSmallSize) + kMargin);
    return std::move(picture_);
  }

 private:
  double At(double value) const {
    return std::round(axis_ + kBars * value / scale_);
  }

  void AddText(absl::string_view text, double left, double top, double width,
               double size, picture::Rgb color,
               picture::PictureText::Align align, bool bold = false) {
    picture_.items.emplace_back(
        picture::PictureText{{left, top, width, picture::TextLineHeight(size)},
                             CleanText(text, kMaxBytes),
                             size,
                             color,
                             align,
                             bold});
  }

  void AddFill(double left, double top, double width, double height,
               picture::Rgb color) {
    picture_.items.emplace_back(
        picture::PictureFill{{left, top, width, height}, color});
  }

  // Moves `top` below what was added.
  void AddHead(const std::string& text, double size, picture::Rgb color,
               double& top) {
    const double width = picture_.width - 2 * kMargin;
    for (const std::string& line :
         picture::WrapText(text, width, size, kMaxLines)) {
      AddText(line, kMargin, top, width, size, color,
              picture::PictureText::Align::kLeft, size == kTitleSize);
      top += picture::TextLineHeight(size);
    }
  }

  void AddAxis(double top, double bottom) {
    const double step = kBars / kTicks;
    const double below = bottom + kGap / 2;
    for (int i = 0; i <= kTicks; ++i) {
      const double value = scale_ * i / kTicks;
      AddFill(At(value), top, 1, bottom - top, kGrid);
      AddText(scale_ >= kTicks ? GroupedText(value)
                               : absl::StrFormat("%.2g", value),
              At(value) - step / 2, below, step, kSmallSize, kPale,
              picture::PictureText::Align::kCenter);
    }
    AddText("images per second", axis_,
            below + picture::TextLineHeight(kSmallSize), kBars, kSmallSize,
            kInk, picture::PictureText::Align::kCenter);
    AddText(
        "bar: median of the rounds; line: worst to best round; green: best; "
        "pale green: within noise of the best",
        kMargin, below + 2 * picture::TextLineHeight(kSmallSize) + kGap / 2,
        picture_.width - 2 * kMargin, kSmallSize, kPale,
        picture::PictureText::Align::kCenter);
  }

  picture::Rgb ColorOf(const BenchRow& row) const {
    if (&row == best_) return kBest;
    return IsSlower(row, *best_) ? kOther : kAlike;
  }

  void AddRow(const BenchRow& row, double top) {
    const double middle = top + kRow / 2;
    const double text = top + (kRow - picture::TextLineHeight(kTextSize)) / 2;
    AddText(row.setting.Name(), kMargin, text, labels_, kTextSize, kInk,
            picture::PictureText::Align::kRight);
    if (row.rounds.empty()) {
      AddText(
          row.error.empty() ? "not run" : absl::StrCat("failed: ", row.error),
          axis_ + kGap, text, kBars + kValues, kTextSize, kFailed,
          picture::PictureText::Align::kLeft);
      return;
    }
    const BenchSpread images = Spread(row, kImages);
    AddFill(axis_, middle - kBar / 2, At(images.median) - axis_, kBar,
            ColorOf(row));
    const double worst = At(images.min);
    const double best = At(images.max);
    AddFill(worst - 1, middle - 1, best - worst + 2, 2, kInk);
    for (const double end : {worst, best}) {
      AddFill(end - 1, middle - kCap / 2, 2, kCap, kInk);
    }
    AddText(row.rounds.size() == 1
                ? absl::StrCat(GroupedText(images.median), " (1 round)")
                : absl::StrCat(GroupedText(images.median), " (",
                               GroupedText(images.min), " - ",
                               GroupedText(images.max), ")"),
            values_, text, kValues, kTextSize, kInk,
            picture::PictureText::Align::kLeft, &row == best_);
  }

  const std::vector<BenchRow>& rows_;
  const BenchRow* const best_;  // null: no row has rounds
  double scale_;                // value at the end of the axis
  double labels_;               // width of their column
  double axis_;                 // its left end
  double values_;               // left end of their column
  picture::Picture picture_;
};

}  // namespace

picture::Picture LayOutBenchPlot(const std::vector<BenchRow>& rows,
                                 const BenchPlotHead& head) {
  return Plot(rows).LayOut(head);
}

}  // namespace millrace::cli
