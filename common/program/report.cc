#include "common/program/report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/count_text.h"
#include "common/json_text.h"

namespace millrace::program {
namespace {

// The first value that %.4g writes with an exponent.
constexpr double kGroupedFrom = 9999.5;

}  // namespace

void Report::Add(absl::string_view key, absl::string_view label,
                 uint64_t value) {
  lines_.push_back({std::string(key), absl::StrCat(value), std::string(label),
                    absl::StrCat(value)});
}

void Report::Add(absl::string_view key, absl::string_view label, double value,
                 absl::string_view unit) {
  // %.4g writes 12345 as 1.234e+04.
  const std::string number = value >= kGroupedFrom
                                 ? GroupedText(value)
                                 : absl::StrFormat("%.4g", value);
  lines_.push_back({std::string(key), JsonNumber(value), std::string(label),
                    absl::StrCat(number, unit.empty() ? "" : " ", unit)});
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
  std::string json;
  for (const Line& line : lines_) {
    if (line.key.empty()) continue;
    absl::StrAppend(&json, json.empty() ? "" : ", ", JsonText(line.key), ": ",
                    line.json);
  }
  return absl::StrCat("{", json, "}");
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
