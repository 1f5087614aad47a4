#include "server/storage/csv/csv_format.h"

#include <memory>
#include <string>

#include "common/status_macros.h"
#include "server/storage/csv/csv_options.h"
#include "server/storage/csv/csv_table.h"
#include "server/storage/extents/file_rule.h"

namespace millrace::storage {
namespace {

class Csv final : public ExtentFormat {
 public:
  absl::string_view scheme() const override { return "csv"; }
  bool names_files() const override { return true; }

  absl::StatusOr<ObjectList> List(const std::string& path,
                                  const FormatOptions& options) const override {
    MR_RETURN_IF_ERROR(ParseCsvOptions(path, options).status());
    return ObjectList{.names = {path}, .description = ""};
  }

  absl::StatusOr<std::unique_ptr<const FileTable>> ReadTable(
      const ExtentUri& uri, absl::string_view text) const override {
    MR_ASSIGN_OR_RETURN(auto table, CsvTable::Parse(text, uri));
    return table;
  }

  absl::StatusOr<std::unique_ptr<FieldRule>> RestoreRule(
      absl::string_view encoded) const override {
    return FileRule::Restore(encoded);
  }
};

}  // namespace

const ExtentFormat& CsvFormat() {
  static const Csv format;
  return format;
}

}  // namespace millrace::storage
