// PathTable is a table of image files and their labels: one sample a row, a
// column of paths, columns of labels (label_column.h), and boxes
// (box_column.h).
//
// A relative path is relative to the folder of the table. It looks at no image
// file.
//
// Immutable and thread-safe.
//
//   MR_ASSIGN_OR_RETURN(PathTable table,
//                       PathTable::Parse(text, "/data/labels.csv", options));
//   Read(table.path(17));  // "/data/images/17.jpg"
//   table.value(1, 17);    // the bytes of its first label

#ifndef MILLRACE_SERVER_STORAGE_CSV_PATH_TABLE_H_
#define MILLRACE_SERVER_STORAGE_CSV_PATH_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/csv/csv_options.h"

namespace millrace::storage {

class PathTable {
 public:
  // `text` is the content of `file`. DataLoss: a row is no row of this table;
  // names file and line. InvalidArgument: an option does not fit the table;
  // names the columns that it has.
  static absl::StatusOr<PathTable> Parse(absl::string_view text,
                                         const std::string& file,
                                         const CsvOptions& options);

  // Field 0 is the image, the labels follow in the order of the options, then
  // the boxes. A single label is named "label", several have the names of their
  // columns.
  const Schema& schema() const { return schema_; }
  int labels() const { return labels_; }

  int64_t rows() const { return static_cast<int64_t>(lines_.size()); }
  // Lives as long as the table.
  absl::string_view path_as_written(int64_t row) const;
  std::string path(int64_t row) const;
  // Line of the row in the file, from 1 on.
  int64_t line(int64_t row) const { return lines_[row]; }
  // Bytes of the value of field `field`, from 1 on.
  absl::Span<const uint8_t> value(int field, int64_t row) const;

 private:
  std::string folder_;
  Schema schema_;
  std::string paths_;  // as written, one behind another
  std::vector<uint64_t> path_ends_;
  std::vector<uint32_t> lines_;
  int labels_ = 0;
  // The values of all rows of each field from 1 on, and where they end if their
  // sizes differ.
  struct Values {
    std::string bytes;
    std::vector<uint64_t> ends;
  };
  std::vector<Values> values_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CSV_PATH_TABLE_H_
