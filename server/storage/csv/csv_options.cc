#include "server/storage/csv/csv_options.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/clean_text.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/extents/extent_uri.h"

namespace millrace::storage {
namespace {

constexpr size_t kMaxQuotedBytes = 200;
constexpr absl::string_view kOptions[] = {"path", "label", "boxes", "header",
                                          "separator"};

absl::Status BadValue(absl::string_view name, absl::string_view value,
                      absl::string_view wanted) {
  return UsageError(absl::InvalidArgumentError(
      absl::StrCat("option ", name, "=", CleanText(value, kMaxQuotedBytes),
                   " of a table: ", wanted)));
}

}  // namespace

absl::StatusOr<CsvOptions> ParseCsvOptions(absl::string_view file,
                                           const FormatOptions& options) {
  MR_RETURN_IF_ERROR(CheckOptions("csv", options, kOptions));
  CsvOptions parsed;
  if (absl::EndsWithIgnoreCase(file, ".tsv")) parsed.separator = '\t';
  for (const auto& [name, value] : options) {
    if (name == "path") {
      if (value.empty()) return BadValue(name, value, "write a column's name");
      parsed.path = value;
    } else if (name == "label" && value.empty()) {
      parsed.no_labels = true;
    } else if (name == "label") {
      parsed.labels = absl::StrSplit(value, ',');
      if (std::find(parsed.labels.begin(), parsed.labels.end(), "") !=
          parsed.labels.end()) {
        return BadValue(name, value, "write names of columns between commas");
      }
    } else if (name == "boxes") {
      parsed.boxes = absl::StrSplit(value, ',');
      if ((parsed.boxes.size() != 1 && parsed.boxes.size() != 4) ||
          std::find(parsed.boxes.begin(), parsed.boxes.end(), "") !=
              parsed.boxes.end()) {
        return BadValue(name, value,
                        "write the name of one column, or of four between "
                        "commas: left, top, right, bottom");
      }
    } else if (name == "header") {
      if (value != "yes" && value != "no") {
        return BadValue(name, value, "write yes or no");
      }
      parsed.header = value == "yes";
    } else if (name == "separator") {
      if (value != "comma" && value != "tab" && value != "semicolon") {
        return BadValue(name, value, "write comma, tab or semicolon");
      }
      parsed.separator = value == "comma" ? ',' : value == "tab" ? '\t' : ';';
    }
  }
  return parsed;
}

}  // namespace millrace::storage
