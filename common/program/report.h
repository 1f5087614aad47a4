// Report formats the results of a command: an aligned list for people, or one
// JSON object for programs.
//
// Not thread-safe.
//
//   Report report;
//   report.Add("samples", "samples received", uint64_t{60000});
//   std::fputs(json ? report.Json().c_str() : report.Text().c_str(), stdout);

#ifndef MILLRACE_COMMON_PROGRAM_REPORT_H_
#define MILLRACE_COMMON_PROGRAM_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace millrace::program {

class Report {
 public:
  // Without `key`, the line is in Text() only; without `label`, in Json() only.
  void Add(absl::string_view key, absl::string_view label, uint64_t value);
  void Add(absl::string_view key, absl::string_view label, double value,
           absl::string_view unit);
  void Add(absl::string_view key, absl::string_view label,
           absl::string_view value);
  // `json` is written unchanged.
  void AddJson(absl::string_view key, absl::string_view json);

  std::string Text() const;
  std::string Json() const;  // one line, without a newline

 private:
  struct Line {
    std::string key;
    std::string json;
    std::string label;
    std::string text;
  };
  std::vector<Line> lines_;
};

// Aligns the cells of `rows` in columns; the first row is the heading.
std::string Table(const std::vector<std::vector<std::string>>& rows);

}  // namespace millrace::program

#endif  // MILLRACE_COMMON_PROGRAM_REPORT_H_
