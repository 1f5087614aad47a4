// Report prints the results of a command: a calm aligned list for people, one
// JSON object for programs.
//
//   Report report;
//   report.Number("samples", "samples", 60000);
//   std::fputs(json ? report.Json().c_str() : report.Text().c_str(), stdout);

#ifndef MILLRACE_CLIENT_CLI_REPORT_H_
#define MILLRACE_CLIENT_CLI_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace millrace {

class Report {
 public:
  // A line for people only when `key` is empty, for programs only when `label`
  // is.
  void Add(absl::string_view key, absl::string_view label, uint64_t value);
  void Add(absl::string_view key, absl::string_view label, double value,
           absl::string_view unit);
  void Add(absl::string_view key, absl::string_view label,
           absl::string_view value);
  // `json` is written as it is.
  void AddJson(absl::string_view key, absl::string_view json);

  std::string Text() const;
  std::string Json() const;  // one line, without its end

 private:
  struct Line {
    std::string key;
    std::string json;
    std::string label;
    std::string text;
  };
  std::vector<Line> lines_;
};

// Rows of cells in columns; the first row is the heading.
std::string Table(const std::vector<std::vector<std::string>>& rows);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_CLI_REPORT_H_
