#include "server/storage/csv/table_classes.h"

#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/clean_text.h"
#include "common/status_macros.h"
#include "server/storage/csv/label_column.h"

namespace millrace::storage {
namespace {

constexpr size_t kMaxQuotedBytes = 200;

std::vector<int64_t> ValuesOf(const PathTable& table) {
  std::vector<int64_t> values(static_cast<size_t>(table.rows()));
  for (int64_t row = 0; row < table.rows(); ++row) {
    std::memcpy(&values[row], table.value(1, row).data(), sizeof(int64_t));
  }
  return values;
}

absl::Status OfRow(const PathTable& table, const ExtentUri& options,
                   int64_t row, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(options.path, ": line ", table.line(row), " ", what));
}

// Replaces the places in the order of the names by the lines of the file.
absl::Status UseNamesOfFile(const PathTable& table, const ExtentUri& options,
                            std::vector<int64_t>* values, Schema* schema) {
  Field& label = *schema->mutable_fields(1);
  const Field by_table = label;
  label.clear_class_names();
  label.set_num_classes(0);
  MR_RETURN_IF_ERROR(options.ApplyTo(1, schema));
  absl::flat_hash_map<std::string, int64_t> lines;
  for (int i = 0; i < label.class_names_size(); ++i) {
    if (lines.emplace(label.class_names(i), i).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(options.classes_file, " has the name '",
                     CleanText(label.class_names(i), kMaxQuotedBytes),
                     "' twice; write each class once"));
  }
  for (int64_t row = 0; row < table.rows(); ++row) {
    const std::string& name =
        by_table.class_names(static_cast<int>((*values)[row]));
    const auto found = lines.find(name);
    if (found == lines.end()) {
      return OfRow(
          table, options, row,
          absl::StrCat("has the class '", CleanText(name, kMaxQuotedBytes),
                       "', and ", options.classes_file,
                       " has no such name; add it to that file"));
    }
    (*values)[row] = found->second;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ClassesOfTable(const PathTable& table,
                                                    const ExtentUri& options,
                                                    Schema* schema) {
  if (table.labels() != 1 || schema->fields(1).dtype() != DTYPE_INT64) {
    MR_RETURN_IF_ERROR(options.ApplyTo(-1, schema));
    return std::vector<int64_t>();
  }
  Field& label = *schema->mutable_fields(1);
  std::vector<int64_t> values = ValuesOf(table);
  if (label.class_names_size() > 0) {
    if (options.label_offset != 0 ||
        (options.num_classes != 0 && options.classes_file.empty())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the options label_offset and num_classes need class indices, and "
          "the labels of ",
          options.path,
          " are names: remove the options, or give the names in "
          "their order with classes=FILE"));
    }
    if (!options.classes_file.empty()) {
      MR_RETURN_IF_ERROR(UseNamesOfFile(table, options, &values, schema));
    }
    return values;
  }
  const bool declared = !options.classes_file.empty() ||
                        options.num_classes != 0 || options.label_offset != 0;
  int64_t largest = 0;
  bool indices = true;
  for (int64_t row = 0; row < table.rows(); ++row) {
    int64_t& value = values[row];
    const int64_t written = value;
    const bool fits =
        !__builtin_add_overflow(written, options.label_offset, &value) &&
        value >= 0 && value < static_cast<int64_t>(kMaxCsvClasses);
    if (!fits && declared) {
      return OfRow(
          table, options, row,
          absl::StrCat(
              "has the label ", written,
              options.label_offset == 0
                  ? ""
                  : absl::StrCat(" (label_offset=", options.label_offset, ")"),
              ", which is no class index from 0 to ", kMaxCsvClasses - 1,
              "; correct the line or label_offset"));
    }
    indices &= fits;
    largest = std::max(largest, value);
  }
  if (!indices) return values;
  label.set_num_classes(largest + 1);
  MR_RETURN_IF_ERROR(options.ApplyTo(1, schema));
  return values;
}

}  // namespace millrace::storage
