#include "server/storage/csv/csv_table.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/csv/csv_options.h"
#include "server/storage/csv/table_classes.h"

namespace millrace::storage {

absl::StatusOr<std::unique_ptr<const CsvTable>> CsvTable::Parse(
    absl::string_view text, const ExtentUri& uri) {
  MR_ASSIGN_OR_RETURN(CsvOptions options,
                      UsageError(ParseCsvOptions(uri.path, uri.options)));
  options.names_given = !uri.classes_file.empty();
  absl::StatusOr<PathTable> parsed = PathTable::Parse(text, uri.path, options);
  // Options that do not fit the table are a mistake of the command line.
  if (absl::IsInvalidArgument(parsed.status())) {
    return UsageError(parsed.status());
  }
  MR_RETURN_IF_ERROR(parsed.status());
  std::unique_ptr<CsvTable> table(new CsvTable());
  table->table_ = *std::move(parsed);
  table->schema_ = table->table_.schema();
  MR_ASSIGN_OR_RETURN(
      table->classes_,
      UsageError(ClassesOfTable(table->table_, uri, &table->schema_)));
  return table;
}

absl::Span<const uint8_t> CsvTable::value(int field, int64_t row) const {
  if (field == 1 && !classes_.empty()) {
    return {reinterpret_cast<const uint8_t*>(&classes_[row]), sizeof(int64_t)};
  }
  return table_.value(field, row);
}

std::string CsvTable::place(int64_t row) const {
  return absl::StrCat("line ", table_.line(row));
}

}  // namespace millrace::storage
