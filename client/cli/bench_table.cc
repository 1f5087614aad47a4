#include "client/cli/bench_table.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/count_text.h"
#include "common/json_text.h"
#include "common/program/report.h"

namespace millrace::cli {
namespace {

constexpr auto kImages = &BenchFigures::images_per_second;

// Rates of fewer batches are noise.
constexpr uint64_t kMinBatches = 10;
constexpr char kMeasureMore[] =
    "measure more batches (--batches, --seconds or --epochs)";

}  // namespace

std::string FewBatchesText(uint64_t batches, uint64_t requested_ahead) {
  const std::string rates = absl::StrCat(
      "the rates come from ", CountText(batches, "batch", "batches"));
  if (batches < kMinBatches) {
    return absl::StrCat(rates, ", which is too few: ", kMeasureMore);
  }
  if (batches <= requested_ahead) {
    return absl::StrCat(rates,
                        ", all requested before the measurement began (window ",
                        requested_ahead, "): ", kMeasureMore);
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

const BenchRow* BestRow(const std::vector<BenchRow>& rows) {
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

bool IsSlower(const BenchRow& row, const BenchRow& best) {
  return Spread(row, kImages).max < Spread(best, kImages).min;
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
      line.push_back(GroupedText(images.median));
      line.push_back(row.rounds.size() == 1
                         ? "1 round"
                         : absl::StrFormat("%s - %s", GroupedText(images.min),
                                           GroupedText(images.max)));
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
  return program::Table(cells);
}

std::string BestSetting(const std::vector<BenchRow>& rows) {
  const BenchRow* const best = BestRow(rows);
  if (best == nullptr) return "";
  const double fastest = Spread(*best, kImages).median;
  double slowest = fastest;
  std::vector<std::string> alike;
  size_t measured = 0;
  for (const BenchRow& row : rows) {
    if (row.rounds.empty()) continue;
    ++measured;
    slowest = std::min(slowest, Spread(row, kImages).median);
    if (&row != best && !IsSlower(row, *best)) {
      alike.push_back(row.setting.Name());
    }
  }
  std::string text = absl::StrFormat(
      "best: %s with %s images/s", best->setting.Name(), GroupedText(fastest));
  if (measured > 1 && slowest > 0) {
    absl::StrAppendFormat(&text, ", %.2f times the slowest", fastest / slowest);
  }
  if (!alike.empty()) {
    constexpr size_t kNamed = 3;
    const size_t more = alike.size() > kNamed ? alike.size() - kNamed : 0;
    alike.resize(alike.size() - more);
    absl::StrAppend(&text,
                    "; within noise of the best: ", absl::StrJoin(alike, ", "),
                    more > 0 ? absl::StrCat(" and ", more, " more") : "");
  }
  return text;
}

std::string FewBatchesNote(const std::vector<BenchRow>& rows) {
  std::vector<std::string> few;
  for (const BenchRow& row : rows) {
    uint64_t min = std::numeric_limits<uint64_t>::max();
    for (const BenchFigures& round : row.rounds) {
      if (round.few) min = std::min(min, round.batches);
    }
    if (min == std::numeric_limits<uint64_t>::max()) continue;
    few.push_back(absl::StrCat(row.setting.Name(), " (",
                               CountText(min, "batch", "batches"),
                               " in a round)"));
  }
  if (few.empty()) return "";
  return absl::StrCat("rates from too few batches: ", absl::StrJoin(few, ", "),
                      "; ", kMeasureMore);
}

std::string BenchRowsJson(const std::vector<BenchRow>& rows) {
  return JsonList(rows, [](const BenchRow& row) {
    JsonObject one;
    JsonObject setting;
    for (const auto& [name, value] : row.setting.values) {
      setting.Add(name, value);
    }
    one.AddJson("setting", setting.Json());
    one.Add("rounds", row.rounds.size());
    if (!row.error.empty()) one.Add("error", row.error);
    const auto add = [&](absl::string_view name, double BenchFigures::*figure) {
      if (row.rounds.empty()) return;
      const BenchSpread spread = Spread(row, figure);
      one.Add(name, spread.median);
      one.Add(absl::StrCat(name, "_least"), spread.min);
      one.Add(absl::StrCat(name, "_most"), spread.max);
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
      one.Add("batches_least", fewest->batches);
      one.Add("few_batches",
              std::any_of(row.rounds.begin(), row.rounds.end(),
                          [](const BenchFigures& f) { return f.few; }));
    }
    return one.Json();
  });
}

}  // namespace millrace::cli
