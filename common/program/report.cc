#include "common/program/report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/count_text.h"
#include "common/json_text.h"

namespace millrace::program {
namespace {

// From here on, digits are grouped; %.4g would write an exponent soon after.
constexpr double kGroupedFrom = 999.95;
// %.4g writes an exponent below this.
constexpr double kSmallest = 0.0001;

std::string NumberText(double value) {
  if (value >= kGroupedFrom) return GroupedText(value);
  // What is smaller than the last digit of any measured value is 0 to a person.
  if (value > -kSmallest && value < kSmallest) return "0";
  return absl::StrFormat("%.4g", value);
}

}  // namespace

void Report::Add(absl::string_view key, absl::string_view label,
                 uint64_t value) {
  lines_.push_back({std::string(key), absl::StrCat(value), std::string(label),
                    GroupedText(value)});
}

void Report::Add(absl::string_view key, absl::string_view label, double value,
                 absl::string_view unit) {
  lines_.push_back(
      {std::string(key), JsonNumber(value), std::string(label),
       absl::StrCat(NumberText(value), unit.empty() ? "" : " ", unit)});
}

void Report::Add(absl::string_view key, absl::string_view label,
                 absl::string_view value) {
  lines_.push_back({std::string(key), JsonText(value), std::string(label),
                    std::string(value)});
}

void Report::AddJson(absl::string_view key, absl::string_view json) {
  lines_.push_back({std::string(key), std::string(json), "", ""});
}

std::string Report::Text() const {
  size_t width = 0;
  for (const Line& line : lines_) width = std::max(width, line.label.size());
  std::string text;
  for (const Line& line : lines_) {
    if (line.label.empty()) continue;
    absl::StrAppendFormat(&text, "%-*s  %s\n", width, line.label, line.text);
  }
  return text;
}

std::string Report::Json() const {
  JsonObject json;
  for (const Line& line : lines_) {
    if (!line.key.empty()) json.AddJson(line.key, line.json);
  }
  return json.Json();
}

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i + 1 == row.size()) {
        line += row[i];
      } else {
        absl::StrAppendFormat(&line, "%-*s  ", widths[i], row[i]);
      }
    }
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace millrace::program
