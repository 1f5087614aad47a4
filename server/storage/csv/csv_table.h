// CsvTable is a table of paths with the classes that the options of its URI
// give: a PathTable (path_table.h) whose label is the class index of
// table_classes.h where it can be one.
//
// It looks at none of the files; the option classes names a file, which it
// reads. Immutable and thread-safe.
//
//   MR_ASSIGN_OR_RETURN(auto table, CsvTable::Parse(text, file, uri));

#ifndef MILLRACE_SERVER_STORAGE_CSV_CSV_TABLE_H_
#define MILLRACE_SERVER_STORAGE_CSV_CSV_TABLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/csv/path_table.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/extents/file_table.h"

namespace millrace::storage {

class CsvTable final : public FileTable {
 public:
  // `text` is the content of the file uri.path. InvalidArgument, a usage error:
  // an option is wrong, or does not fit the table. DataLoss: a row is no row of
  // this table; names file and line.
  static absl::StatusOr<std::unique_ptr<const CsvTable>> Parse(
      absl::string_view text, const ExtentUri& uri);

  const Schema& schema() const override { return schema_; }
  int class_field() const override { return classes_.empty() ? -1 : 1; }
  int64_t rows() const override { return table_.rows(); }
  absl::string_view name(int64_t row) const override {
    return table_.path_as_written(row);
  }
  std::string path(int64_t row) const override { return table_.path(row); }
  absl::Span<const uint8_t> value(int field, int64_t row) const override;
  std::string place(int64_t row) const override;

  // The class index of each row; empty: the dataset has none.
  absl::Span<const int64_t> classes() const { return classes_; }

 private:
  CsvTable() = default;

  PathTable table_;
  Schema schema_;
  std::vector<int64_t> classes_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CSV_CSV_TABLE_H_
