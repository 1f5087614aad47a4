#include "client/cli/bench_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/report.h"
#include "common/count_text.h"

namespace millrace {
namespace {

constexpr auto kImages = &BenchFigures::images_per_second;

// Fewer are a matter of chance.
constexpr uint64_t kFewBatches = 10;

// With separators: 12,345.
std::string Whole(double value) {
  std::string digits = absl::StrFormat("%.0f", value);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(digits.begin() + at, ',');
  }
  return digits;
}

const BenchRow* Best(const std::vector<BenchRow>& rows) {
  const BenchRow* best = nullptr;
  for (const BenchRow& row : rows) {
    if (row.rounds.empty()) continue;
    if (best == nullptr ||
        Spread(row, kImages).median > Spread(*best, kImages).median) {
      best = &row;
    }
  }
  return best;
}

std::string Xml(absl::string_view text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

// A round number of at least `value`, not much larger.
double RoundUp(double value) {
  if (!(value > 0)) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0}) {
    if (step * power >= value) return step * power;
  }
  return 10 * power;
}

}  // namespace

std::string FewBatchesText(uint64_t batches, uint64_t requested_ahead) {
  const std::string rates =
      absl::StrCat("the rates are of ", CountText(batches, "batch", "batches"));
  constexpr char kMore[] =
      ": measure more of them (--batches, --seconds or "
      "--epochs)";
  if (batches < kFewBatches) {
    return absl::StrCat(rates, " only, too few to rely on", kMore);
  }
  if (batches <= requested_ahead) {
    return absl::StrCat(rates,
                        ", all of them requested before the measurement "
                        "began (window ",
                        requested_ahead, ")", kMore);
  }
  return "";
}

BenchSpread Spread(const BenchRow& row, double BenchFigures::*figure) {
  std::vector<double> values;
  for (const BenchFigures& round : row.rounds) values.push_back(round.*figure);
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median = values.size() % 2 == 1
                            ? values[middle]
                            : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

std::string BenchTable(const std::vector<BenchRow>& rows) {
  std::vector<std::vector<std::string>> cells;
  std::vector<std::string> head;
  if (!rows.empty()) {
    for (const auto& [name, value] : rows[0].setting.values) {
      head.push_back(name);
    }
  }
  if (head.empty()) head.push_back("setting");
  head.insert(head.end(), {"images/s", "spread", "GB/s", "CPU s/GB", "waited",
                           "first batch"});
  cells.push_back(head);
  for (const BenchRow& row : rows) {
    std::vector<std::string> line;
    for (const auto& [name, value] : row.setting.values) line.push_back(value);
    if (line.empty()) line.push_back(row.setting.Name());
    if (row.rounds.empty()) {
      line.push_back(row.error.empty() ? "not run" : row.error);
    } else {
      const BenchSpread images = Spread(row, kImages);
      line.push_back(Whole(images.median));
      line.push_back(row.rounds.size() == 1
                         ? "1 round"
                         : absl::StrFormat("%s - %s", Whole(images.least),
                                           Whole(images.most)));
      line.push_back(absl::StrFormat(
          "%.3g", Spread(row, &BenchFigures::gigabytes_per_second).median));
      line.push_back(absl::StrFormat(
          "%.3f", Spread(row, &BenchFigures::cpu_seconds_per_gigabyte).median));
      line.push_back(absl::StrFormat(
          "%.0f %%", 100 * Spread(row, &BenchFigures::wait_share).median));
      line.push_back(absl::StrFormat(
          "%.0f ms", Spread(row, &BenchFigures::first_batch_ms).median));
    }
    cells.push_back(std::move(line));
  }
  return Table(cells);
}

std::string BestSetting(const std::vector<BenchRow>& rows) {
  const BenchRow* const best = Best(rows);
  if (best == nullptr) return "";
  const BenchSpread most = Spread(*best, kImages);
  double slowest = most.median;
  std::vector<std::string> alike;
  size_t measured = 0;
  for (const BenchRow& row : rows) {
    if (row.rounds.empty()) continue;
    ++measured;
    const BenchSpread images = Spread(row, kImages);
    slowest = std::min(slowest, images.median);
    if (&row != best && images.most >= most.least) {
      alike.push_back(row.setting.Name());
    }
  }
  std::string text = absl::StrFormat("best: %s with %s images/s",
                                     best->setting.Name(), Whole(most.median));
  if (measured > 1 && slowest > 0) {
    absl::StrAppendFormat(&text, ", %.2f times the slowest",
                          most.median / slowest);
  }
  if (!alike.empty()) {
    constexpr size_t kNamed = 3;
    const size_t more = alike.size() > kNamed ? alike.size() - kNamed : 0;
    alike.resize(alike.size() - more);
    absl::StrAppend(&text,
                    "; not told apart from it: ", absl::StrJoin(alike, ", "),
                    more > 0 ? absl::StrCat(" and ", more, " more") : "");
  }
  return text;
}

std::string FewBatchesNote(const std::vector<BenchRow>& rows) {
  std::vector<std::string> few;
  for (const BenchRow& row : rows) {
    uint64_t least = std::numeric_limits<uint64_t>::max();
    for (const BenchFigures& round : row.rounds) {
      if (round.few) least = std::min(least, round.batches);
    }
    if (least == std::numeric_limits<uint64_t>::max()) continue;
    few.push_back(absl::StrCat(row.setting.Name(), " (",
                               CountText(least, "batch", "batches"),
                               " in a round)"));
  }
  if (few.empty()) return "";
  return absl::StrCat(
      "rates of too few batches to rely on: ", absl::StrJoin(few, ", "),
      "; measure more of them (--batches, --seconds or "
      "--epochs)");
}

std::string BenchRowsJson(const std::vector<BenchRow>& rows) {
  std::vector<std::string> parts;
  for (const BenchRow& row : rows) {
    Report one;
    Report setting;
    for (const auto& [name, value] : row.setting.values) {
      setting.Add(name, "", absl::string_view(value));
    }
    one.AddJson("setting", setting.Json());
    one.Add("rounds", "", uint64_t{row.rounds.size()});
    if (!row.error.empty()) {
      one.Add("error", "", absl::string_view(row.error));
    }
    const auto add = [&](absl::string_view name, double BenchFigures::*figure) {
      if (row.rounds.empty()) return;
      const BenchSpread spread = Spread(row, figure);
      one.Add(name, "", spread.median, "");
      one.Add(absl::StrCat(name, "_least"), "", spread.least, "");
      one.Add(absl::StrCat(name, "_most"), "", spread.most, "");
    };
    add("images_per_second", kImages);
    add("gigabytes_per_second", &BenchFigures::gigabytes_per_second);
    add("client_cpu_seconds_per_gigabyte",
        &BenchFigures::cpu_seconds_per_gigabyte);
    add("wait_share", &BenchFigures::wait_share);
    add("time_to_first_batch_ms", &BenchFigures::first_batch_ms);
    if (!row.rounds.empty()) {
      const auto fewest = std::min_element(
          row.rounds.begin(), row.rounds.end(),
          [](const auto& a, const auto& b) { return a.batches < b.batches; });
      one.Add("batches_least", "", fewest->batches);
      one.AddJson("few_batches",
                  std::any_of(row.rounds.begin(), row.rounds.end(),
                              [](const BenchFigures& f) { return f.few; })
                      ? "true"
                      : "false");
    }
    parts.push_back(one.Json());
  }
  return absl::StrCat("[", absl::StrJoin(parts, ", "), "]");
}

std::string BenchSvg(const std::vector<BenchRow>& rows,
                     absl::string_view title) {
  constexpr int kTop = 56, kRow = 26, kBar = 16, kWidth = 560, kRight = 96;
  size_t longest = 8;
  double most = 0;
  for (const BenchRow& row : rows) {
    longest = std::max(longest, row.setting.Name().size());
    most = std::max(most, Spread(row, kImages).most);
  }
  const int left = 24 + static_cast<int>(longest) * 8;
  const double scale = RoundUp(most);
  const int bottom = kTop + kRow * static_cast<int>(rows.size());
  const auto x = [&](double value) { return left + kWidth * value / scale; };
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
      "font-family=\"monospace\" font-size=\"13\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
      "<text x=\"12\" y=\"24\" font-size=\"15\">%s</text>\n",
      left + kWidth + kRight, bottom + 48, Xml(title));
  for (int i = 0; i <= 5; ++i) {
    const double value = scale * i / 5;
    absl::StrAppendFormat(
        &svg,
        "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" "
        "stroke=\"#ddd\"/>\n"
        "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" "
        "fill=\"#555\">%s</text>\n",
        x(value), kTop - 8, x(value), bottom, x(value), bottom + 18,
        scale >= 5 ? Whole(value) : absl::StrFormat("%.2g", value));
  }
  absl::StrAppendFormat(
      &svg,
      "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">images per second: "
      "median, worst to best round</text>\n",
      x(scale / 2), bottom + 38);
  const BenchRow* const best = Best(rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    const BenchRow& row = rows[i];
    const int y = kTop + kRow * static_cast<int>(i);
    const int middle = y + kBar / 2;
    absl::StrAppendFormat(
        &svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n",
        left - 8, middle + 4, Xml(row.setting.Name()));
    if (row.rounds.empty()) {
      absl::StrAppendFormat(&svg,
                            "<text x=\"%d\" y=\"%d\" "
                            "fill=\"#a00\">failed</text>\n",
                            left + 6, middle + 4);
      continue;
    }
    const BenchSpread images = Spread(row, kImages);
    absl::StrAppendFormat(
        &svg,
        "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" "
        "fill=\"%s\"/>\n"
        "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"black\" "
        "stroke-width=\"2\"/>\n"
        "<text x=\"%.1f\" y=\"%d\">%s</text>\n",
        left, y, x(images.median) - left, kBar, &row == best ? "#2a7" : "#8ab",
        x(images.least), middle, x(images.most), middle, x(images.most) + 6,
        middle + 4, Whole(images.median));
  }
  return svg + "</svg>\n";
}

}  // namespace millrace
