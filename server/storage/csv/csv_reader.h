// CsvReader splits the text of a table into rows and cells, as RFC 4180 defines
// them: cells between separators, a cell in quotes may hold separators, line
// ends and doubled quotes.
//
// Beyond the RFC: lines may end with LF alone, blank lines and a byte order
// mark at the beginning are skipped, and a quote inside a cell that does not
// begin with one stands for itself. Cells may hold any bytes but zeros.
//
// Belongs to one thread at a time; views the caller's text.
//
//   CsvReader reader(text, ',');
//   std::vector<std::string> cells;
//   while (true) {
//     MR_ASSIGN_OR_RETURN(const bool found, reader.Next(&cells));
//     if (!found) break;
//     Use(reader.line(), cells);
//   }

#ifndef MILLRACE_SERVER_STORAGE_CSV_CSV_READER_H_
#define MILLRACE_SERVER_STORAGE_CSV_CSV_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace::storage {

inline constexpr size_t kMaxCsvColumns = 4096;
inline constexpr size_t kMaxCsvCellBytes = 64 << 10;

class CsvReader {
 public:
  CsvReader(absl::string_view text, char separator);

  // Fills `cells` with those of the next row; false: there is none. DataLoss:
  // the row is no such row; the message begins with "line N: ".
  absl::StatusOr<bool> Next(std::vector<std::string>* cells);

  // The line, from 1 on, in which the last row begins.
  int64_t line() const { return row_line_; }

 private:
  absl::Status Damaged(int64_t line, absl::string_view what) const;
  // Whether `rest_` begins with the end of a line, of `*bytes`.
  bool AtLineEnd(size_t* bytes) const;
  absl::Status ReadCell(std::string* cell);
  absl::Status ReadQuoted(std::string* cell);

  absl::string_view rest_;
  const char separator_;
  int64_t line_ = 1;  // of the beginning of `rest_`
  int64_t row_line_ = 0;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CSV_CSV_READER_H_
