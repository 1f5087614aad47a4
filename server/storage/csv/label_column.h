// LabelColumn turns the cells of one column into the values of a field:
//
//   every cell a whole number     int64 scalar, as written
//   every cell a number           float32 scalar
//   otherwise names of classes    int64 scalar: the place of the name in the
//                                 bytewise order of all names, with the names
//
// A whole number has no leading zeros: 01 is a name.
//
// Not thread-safe.
//
//   LabelColumn column("label");
//   for (...) MR_RETURN_IF_ERROR(column.Add(cell));
//   const LabelValues values = std::move(column).Finish();

#ifndef MILLRACE_SERVER_STORAGE_CSV_LABEL_COLUMN_H_
#define MILLRACE_SERVER_STORAGE_CSV_LABEL_COLUMN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::storage {

// Default max number of different names of a column.
inline constexpr size_t kMaxCsvClasses = 1 << 18;

struct LabelValues {
  Field field;        // with the names and the number of classes, if it has
  std::string bytes;  // of all rows, one value behind another
};

class LabelColumn {
 public:
  // `name` is that of the field.
  explicit LabelColumn(std::string name, size_t max_classes = kMaxCsvClasses)
      : name_(std::move(name)), max_classes_(max_classes) {}

  // The cell of the next row. A part of a sentence ("has no value ..."),
  // DataLoss: the cell is empty, or no UTF-8; InvalidArgument: there are too
  // many different cells.
  absl::Status Add(absl::string_view cell);

  // A cell of a column of names that is probably none: most other cells are
  // numbers, so that "nan" or "1 " would turn all of them into names.
  struct OddCell {
    std::string cell;
    size_t row = 0;      // its first one
    size_t numbers = 0;  // rows with a number
    size_t rows = 0;
  };
  // Absent: the cells are numbers, or look like names.
  std::optional<OddCell> FindOddCell() const;

  // The values of all cells. The column is used up.
  LabelValues Finish() &&;

 private:
  const std::string name_;
  const size_t max_classes_;
  bool whole_numbers_ = true;
  bool numbers_ = true;
  // The number of each different cell in the order of their first rows.
  absl::flat_hash_map<std::string, uint32_t> numbers_of_cells_;
  std::vector<uint32_t> rows_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CSV_LABEL_COLUMN_H_
