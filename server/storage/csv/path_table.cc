#include "server/storage/csv/path_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/clean_text.h"
#include "common/count_text.h"
#include "common/file_error.h"
#include "common/first_of.h"
#include "common/folder.h"
#include "common/status_macros.h"
#include "server/storage/csv/box_column.h"
#include "server/storage/csv/csv_reader.h"
#include "server/storage/csv/label_column.h"
#include "server/storage/imagefolder/image_names.h"
#include "server/storage/sample_check.h"

namespace millrace::storage {
namespace {

constexpr size_t kMaxQuotedBytes = 200;

std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", CleanText(text, kMaxQuotedBytes), "'");
}

// The name of a separator that stands in a cell; empty: there is none.
std::string OtherSeparator(absl::string_view cell) {
  if (absl::StrContains(cell, ';')) return "semicolon";
  if (absl::StrContains(cell, '\t')) return "tab";
  return absl::StrContains(cell, ',') ? "comma" : "";
}

// Places of the columns that a table is made of.
struct Columns {
  size_t path = 0;
  std::vector<size_t> labels;
  std::vector<std::string> label_names;  // of the fields
  std::vector<size_t> boxes;             // none, one or four
  size_t count = 0;
};

class ColumnFinder {
 public:
  // `header`: names of the columns.
  ColumnFinder(const std::string& file, std::vector<std::string> header,
               const CsvOptions& options)
      : file_(file), header_(std::move(header)), options_(options) {}

  absl::StatusOr<Columns> Find() const {
    Columns columns;
    columns.count = header_.size();
    if (!options_.path.empty()) {
      MR_ASSIGN_OR_RETURN(columns.path, FindOne(options_.path));
    }
    std::vector<bool> taken(header_.size());
    taken[columns.path] = true;
    MR_RETURN_IF_ERROR(FindAll(options_.labels, &taken, &columns.labels));
    MR_RETURN_IF_ERROR(FindAll(options_.boxes, &taken, &columns.boxes));
    if (columns.labels.empty() && !options_.no_labels) {
      const auto others = std::count(taken.begin(), taken.end(), false);
      if (others == 0 && columns.boxes.empty()) {
        const std::string separator = OtherSeparator(header_[columns.path]);
        return Refused(
            separator.empty()
                ? "there is no column of labels: name none with label= if the "
                  "dataset has none"
                : absl::StrCat("the cells seem to be separated otherwise: add "
                               "separator=",
                               separator));
      }
      if (others > 1) {
        return Refused(
            "name the columns of the labels, for example label=class, or none "
            "with label=");
      }
      if (others == 1) {
        columns.labels.push_back(static_cast<size_t>(
            std::find(taken.begin(), taken.end(), false) - taken.begin()));
      }
    }
    for (const size_t label : columns.labels) {
      columns.label_names.push_back(
          columns.labels.size() == 1 ? "label" : header_[label]);
    }
    return columns;
  }

 private:
  absl::StatusOr<size_t> FindOne(const std::string& name) const {
    const auto found = std::find(header_.begin(), header_.end(), name);
    if (found == header_.end()) {
      return Refused(absl::StrCat("there is no column ", Quoted(name)));
    }
    if (std::find(found + 1, header_.end(), name) != header_.end()) {
      return Refused(absl::StrCat("there are two columns ", Quoted(name)));
    }
    return static_cast<size_t>(found - header_.begin());
  }

  absl::Status FindAll(const std::vector<std::string>& names,
                       std::vector<bool>* taken,
                       std::vector<size_t>* found) const {
    for (const std::string& name : names) {
      MR_ASSIGN_OR_RETURN(const size_t column, FindOne(name));
      if ((*taken)[column]) {
        return Refused(absl::StrCat("column ", Quoted(name),
                                    " is named twice by path=, label= and "
                                    "boxes="));
      }
      (*taken)[column] = true;
      found->push_back(column);
    }
    return absl::OkStatus();
  }

  absl::Status Refused(absl::string_view what) const {
    std::vector<std::string> names;
    for (const std::string& name : header_) names.push_back(Quoted(name));
    return absl::InvalidArgumentError(
        absl::StrCat(file_, ": ", what, "; its columns are ",
                     FirstOf(names, ", ", static_cast<int64_t>(names.size())),
                     options_.header ? "" : " (header=no)"));
  }

  const std::string& file_;
  const std::vector<std::string> header_;
  const CsvOptions& options_;
};

}  // namespace

absl::StatusOr<PathTable> PathTable::Parse(absl::string_view text,
                                           const std::string& file,
                                           const CsvOptions& options) {
  PathTable table;
  table.folder_ = FolderOf(file);
  const auto in_file = [&file](const absl::Status& status) {
    return absl::Status(status.code(),
                        absl::StrCat(file, ": ", status.message()));
  };
  CsvReader reader(text, options.separator);
  std::vector<std::string> cells;
  const auto damaged = [&](absl::string_view what) {
    return absl::DataLossError(
        absl::StrCat(file, ": line ", reader.line(), " ", what));
  };
  absl::StatusOr<bool> found = reader.Next(&cells);
  if (!found.ok()) return in_file(found.status());
  if (!*found) return absl::DataLossError(absl::StrCat(file, " has no rows"));
  std::vector<std::string> header = cells;
  if (!options.header) {
    for (size_t i = 0; i < header.size(); ++i) header[i] = absl::StrCat(i + 1);
  }
  const std::vector<std::string> header_names = header;
  MR_ASSIGN_OR_RETURN(const Columns columns,
                      ColumnFinder(file, std::move(header), options).Find());
  if (options.header) {
    if (HasImageName(cells[columns.path])) {
      return damaged(absl::StrCat("is ", Quoted(cells[columns.path]),
                                  " where the name of a column is expected: if "
                                  "the table has no header, add header=no"));
    }
    found = reader.Next(&cells);
    if (!found.ok()) return in_file(found.status());
    if (!*found) {
      return absl::DataLossError(
          absl::StrCat(file, " has a header and no rows"));
    }
  }
  std::vector<LabelColumn> labels;
  for (const std::string& name : columns.label_names) labels.emplace_back(name);
  BoxColumn boxes;
  const auto in_row = [&](const absl::Status& status) {
    return absl::Status(
        status.code(),
        absl::StrCat(file, ": line ", reader.line(), " ", status.message()));
  };
  while (*found) {
    if (cells.size() != columns.count) {
      return damaged(absl::StrCat("has ", CountText(cells.size(), "cell"),
                                  ", and line 1 has ", columns.count));
    }
    const std::string& path = cells[columns.path];
    if (path.empty()) return damaged("has no path");
    if (reader.line() > UINT32_MAX) return damaged("is beyond the last line");
    table.paths_ += path;
    table.path_ends_.push_back(table.paths_.size());
    table.lines_.push_back(static_cast<uint32_t>(reader.line()));
    for (size_t i = 0; i < labels.size(); ++i) {
      const absl::Status added = labels[i].Add(cells[columns.labels[i]]);
      if (!added.ok()) return in_row(added);
    }
    if (!columns.boxes.empty()) {
      std::vector<absl::string_view> corners;
      for (const size_t box : columns.boxes) corners.push_back(cells[box]);
      const absl::Status added = corners.size() == 1
                                     ? boxes.Add(corners[0])
                                     : boxes.AddCorners(corners);
      if (!added.ok()) return in_row(added);
    }
    found = reader.Next(&cells);
    if (!found.ok()) return in_file(found.status());
  }
  Field& image = *table.schema_.add_fields();
  image.set_name("image");
  image.set_kind(FIELD_KIND_ENCODED_IMAGE);
  for (size_t i = 0; i < labels.size() && !options.names_given; ++i) {
    const auto odd = labels[i].FindOddCell();
    if (!odd.has_value()) continue;
    return absl::DataLossError(absl::StrCat(
        file, ": line ", table.lines_[odd->row], " has ", Quoted(odd->cell),
        " in column ", Quoted(header_names[columns.labels[i]]), ", and ",
        odd->numbers, " of ", CountText(odd->rows, "row"),
        " have numbers there: correct the cell, or remove the row; if all are "
        "names of classes, list the names in a file: classes=FILE"));
  }
  for (LabelColumn& label : labels) {
    LabelValues values = std::move(label).Finish();
    *table.schema_.add_fields() = std::move(values.field);
    table.values_.push_back({.bytes = std::move(values.bytes), .ends = {}});
  }
  table.labels_ = static_cast<int>(labels.size());
  if (!columns.boxes.empty()) {
    BoxValues values = std::move(boxes).Finish();
    *table.schema_.add_fields() = std::move(values.field);
    table.values_.push_back(
        {.bytes = std::move(values.bytes), .ends = std::move(values.ends)});
  }
  if (const auto check = SampleCheck::Create(table.schema_); !check.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": ", check.status().message()));
  }
  return table;
}

absl::string_view PathTable::path_as_written(int64_t row) const {
  const uint64_t begin = row == 0 ? 0 : path_ends_[row - 1];
  return absl::string_view(paths_).substr(begin, path_ends_[row] - begin);
}

std::string PathTable::path(int64_t row) const {
  const absl::string_view path = path_as_written(row);
  if (absl::StartsWith(path, "/")) return std::string(path);
  return JoinPath(folder_, path);
}

absl::Span<const uint8_t> PathTable::value(int field, int64_t row) const {
  const Values& values = values_[field - 1];
  const auto* const bytes =
      reinterpret_cast<const uint8_t*>(values.bytes.data());
  if (values.ends.empty()) {
    const size_t each = values.bytes.size() / lines_.size();
    return {bytes + row * each, each};
  }
  const uint64_t begin = row == 0 ? 0 : values.ends[row - 1];
  return {bytes + begin, values.ends[row] - begin};
}

}  // namespace millrace::storage
