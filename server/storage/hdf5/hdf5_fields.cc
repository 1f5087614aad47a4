#include "server/storage/hdf5/hdf5_fields.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/clean_text.h"
#include "common/count_text.h"
#include "common/first_of.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "common/utf8.h"
#include "server/storage/chunks/column_choice.h"
#include "server/storage/chunks/stored_type.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/hdf5/reader_process.h"
#include "server/storage/imagefolder/image_names.h"

namespace millrace::storage {
namespace {

constexpr std::array<absl::string_view, 6> kOptions = {
    "fields", "group", "image", "label", "ragged", "tensor"};
// Names of labels beyond those of column_choice.h.
constexpr std::array<absl::string_view, 2> kLabelNames = {"labels", "targets"};
constexpr std::array<absl::string_view, 5> kChoiceNames = {
    "label", "class", "cls", "y", "target"};
constexpr size_t kMaxQuoted = 200;

std::string Quoted(absl::string_view name) {
  return absl::StrCat("'", CleanText(name, kMaxQuoted), "'");
}

// "/train/" and "train" name one group.
absl::string_view Trimmed(absl::string_view path) {
  while (absl::ConsumePrefix(&path, "/")) {
  }
  while (absl::ConsumeSuffix(&path, "/")) {
  }
  return path;
}

std::string GroupPrefix(const FormatOptions& options) {
  const auto group = options.find("group");
  if (group == options.end() || Trimmed(group->second).empty()) return "";
  return absl::StrCat(Trimmed(group->second), "/");
}

// The name of the field: "train/images" is train.images, as a key of LitData.
std::string FieldName(absl::string_view name) {
  return absl::StrReplaceAll(Trimmed(name), {{"/", "."}});
}

StoredType StoredOf(const Hdf5Dataset& set) {
  return static_cast<StoredType>(set.stored());
}

// One integer a row, also as [N, 1].
bool IsOneInteger(const Hdf5Dataset& set) {
  return !set.variable() && set.stored() != 0 && IsInteger(StoredOf(set)) &&
         RowBytes(set) == set.element_bytes();
}

// Pixels of uint8: [N, H, W], [N, H, W, 1], [N, H, W, 3].
bool IsPixels(const Hdf5Dataset& set) {
  return !set.variable() && StoredOf(set) == StoredType::kUint8 &&
         (set.dims_size() == 3 ||
          (set.dims_size() == 4 && (set.dims(3) == 1 || set.dims(3) == 3)));
}

bool IsEncodedImage(absl::Span<const uint8_t> value) {
  return !value.empty() &&
         WhyNoImage({reinterpret_cast<const char*>(value.data()),
                     std::min(value.size(), kImageStartBytes)})
             .empty();
}

absl::Status Usage(const std::string& file, const std::string& message) {
  return UsageError(
      absl::InvalidArgumentError(absl::StrCat(file, ": ", message)));
}

// The datasets below a group, by their names in it.
class Choice {
 public:
  Choice(const Hdf5Layout& layout, const std::string& file,
         const FormatOptions& options)
      : layout_(layout),
        file_(file),
        options_(options),
        prefix_(GroupPrefix(options)) {}

  absl::StatusOr<Hdf5Table> Choose() {
    MR_RETURN_IF_ERROR(FindNamed());
    for (int i = 0; i < layout_.datasets_size(); ++i) {
      const Hdf5Dataset& set = layout_.datasets(i);
      if (!absl::StartsWith(set.name(), prefix_)) continue;
      const std::string name = set.name().substr(prefix_.size());
      below_.push_back(name);
      if (!named_.empty() && !named_.contains(name)) continue;
      const std::string why = WhyNoField(set, name);
      if (!why.empty()) {
        if (named_.contains(name)) {
          return Usage(file_, absl::StrCat("dataset ", Quoted(set.name()),
                                           " cannot be a field: it ", why));
        }
        LeftOutColumn* const out = &table_.left_out.emplace_back();
        out->set_name(CleanText(FieldName(name), kMaxQuoted));
        out->set_reason(absl::StrCat("the dataset ", why));
        continue;
      }
      table_.columns.push_back({.set = i, .path = set.name(), .name = name});
      found_.insert(name);
    }
    MR_RETURN_IF_ERROR(CheckNamed());
    MR_RETURN_IF_ERROR(CheckRows());
    return std::move(table_);
  }

 private:
  // The datasets that the options choose; empty: all.
  absl::Status FindNamed() {
    const auto fields = options_.find("fields");
    if (fields == options_.end()) return absl::OkStatus();
    for (const absl::string_view name : absl::StrSplit(fields->second, ',')) {
      if (Trimmed(name).empty()) {
        return Usage(file_, "option fields names no dataset");
      }
      named_.insert(std::string(Trimmed(name)));
    }
    for (const char* const option : {"image", "label"}) {
      const auto chosen = options_.find(option);
      if (chosen != options_.end() && !Trimmed(chosen->second).empty()) {
        named_.insert(std::string(Trimmed(chosen->second)));
      }
    }
    return absl::OkStatus();
  }

  // The end of a sentence; empty: it can be a field.
  static std::string WhyNoField(const Hdf5Dataset& set,
                                const std::string& name) {
    if (!set.left_out().empty()) return CleanText(set.left_out(), 1000);
    if (!IsUtf8(name)) return "has a name that is not UTF-8";
    return "";
  }

  std::string Below() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < std::min<size_t>(below_.size(), 20); ++i) {
      names.push_back(Quoted(below_[i]));
    }
    if (names.empty()) return "none";
    return FirstOf(names, ", ", static_cast<int64_t>(below_.size()));
  }

  absl::Status CheckNamed() const {
    for (const std::string& name : named_) {
      if (found_.contains(name)) continue;
      return Usage(file_,
                   absl::StrCat("there is no dataset ", Quoted(prefix_ + name),
                                "; there are ", Below()));
    }
    if (!table_.columns.empty()) return absl::OkStatus();
    if (below_.empty()) {
      return Usage(file_, prefix_.empty()
                              ? "the file contains no dataset"
                              : absl::StrCat("there is no dataset in group ",
                                             Quoted(prefix_)));
    }
    std::vector<std::string> reasons;
    for (size_t i = 0; i < std::min(table_.left_out.size(), kMaxListed); ++i) {
      reasons.push_back(absl::StrCat("'", table_.left_out[i].name(), "' (",
                                     table_.left_out[i].reason(), ")"));
    }
    return Usage(
        file_,
        absl::StrCat("no dataset can be a field: ",
                     FirstOf(reasons, ", ",
                             static_cast<int64_t>(table_.left_out.size()))));
  }

  absl::Status CheckRows() {
    std::set<uint64_t> numbers;
    std::vector<std::string> lengths;
    for (const Hdf5Column& column : table_.columns) {
      const uint64_t rows = layout_.datasets(column.set).dims(0);
      numbers.insert(rows);
      if (lengths.size() < 20) {
        lengths.push_back(absl::StrCat(Quoted(column.path), " has ", rows));
      }
    }
    if (numbers.size() > 1) {
      return Usage(
          file_,
          absl::StrCat(
              "the datasets have different numbers of rows: ",
              FirstOf(lengths, ", ",
                      static_cast<int64_t>(table_.columns.size())),
              "; choose those of one table by ?fields=A,B or ?group=GROUP"));
    }
    if (*numbers.begin() == 0) {
      return absl::DataLossError(absl::StrCat(
          file_, ": the datasets have no rows; write samples to them first"));
    }
    table_.rows = static_cast<int64_t>(*numbers.begin());
    return absl::OkStatus();
  }

  const Hdf5Layout& layout_;
  const std::string& file_;
  const FormatOptions& options_;
  const std::string prefix_;
  std::set<std::string> named_;
  std::set<std::string> found_;
  std::vector<std::string> below_;
  Hdf5Table table_;
};

ColumnDraft DraftOf(const Hdf5Column& column, const Hdf5Dataset& set,
                    absl::Span<const uint8_t> first, bool is_label) {
  ColumnDraft draft = BytesColumn(FieldName(column.name));
  if (Varies(set)) {
    const bool bytes = set.stored() == 0 || StoredOf(set) == StoredType::kUint8;
    if (!bytes) {
      draft.kind = ColumnKind::kPlainArray;
      draft.stored = StoredOf(set);
    } else if (draft.kind == ColumnKind::kBytes && IsEncodedImage(first)) {
      draft.kind = ColumnKind::kImage;
    }
    return draft;
  }
  draft.stored = StoredOf(set);
  draft.bytes = RowBytes(set);
  draft.kind = ColumnKind::kArray;
  if (set.dims_size() == 1 || (is_label && IsOneInteger(set))) {
    draft.kind = ColumnKind::kScalar;
    return draft;
  }
  for (int i = 1; i < set.dims_size(); ++i) {
    draft.shape.push_back(static_cast<int64_t>(set.dims(i)));
  }
  // Grey pixels, as those of IDX files.
  if (IsPixels(set) && draft.shape.size() == 2) draft.shape.push_back(1);
  return draft;
}

// The datasets that become image and label, as options of column_choice.h.
FormatOptions ChoiceOptions(const Hdf5Table& table, const Hdf5Layout& layout,
                            const FormatOptions& options,
                            const std::vector<bool>& encoded) {
  FormatOptions choice;
  for (const char* const name : {"image", "label", "ragged", "tensor"}) {
    const auto option = options.find(name);
    if (option == options.end()) continue;
    std::vector<std::string> fields;
    for (const absl::string_view field : absl::StrSplit(option->second, ',')) {
      fields.push_back(FieldName(field));
    }
    choice[name] = absl::StrJoin(fields, ",");
  }
  const auto has = [&](absl::string_view name) {
    return absl::c_any_of(table.columns, [&](const Hdf5Column& column) {
      return column.name == name;
    });
  };
  if (!choice.contains("image") && !has("image")) {
    std::vector<int> images;
    for (size_t i = 0; i < table.columns.size(); ++i) {
      if (encoded[i] || IsPixels(layout.datasets(table.columns[i].set))) {
        images.push_back(static_cast<int>(i));
      }
    }
    if (images.size() == 1) {
      choice["image"] = FieldName(table.columns[images[0]].name);
    }
  }
  if (!choice.contains("label") &&
      absl::c_none_of(kChoiceNames,
                      [&](absl::string_view name) { return has(name); })) {
    std::vector<std::string> labels;
    for (const Hdf5Column& column : table.columns) {
      if (absl::c_linear_search(kLabelNames, column.name) &&
          IsOneInteger(layout.datasets(column.set))) {
        labels.push_back(FieldName(column.name));
      }
    }
    if (labels.size() == 1) choice["label"] = labels[0];
  }
  return choice;
}

bool SameType(const Hdf5Dataset& a, const Hdf5Dataset& b) {
  return a.stored() == b.stored() && a.variable() == b.variable() &&
         (a.variable() || a.stored() == 0 ||
          std::equal(a.dims().begin() + 1, a.dims().end(), b.dims().begin() + 1,
                     b.dims().end()));
}

}  // namespace

absl::Status CheckHdf5Options(const FormatOptions& options) {
  return CheckOptions("hdf5", options, kOptions);
}

absl::StatusOr<Hdf5Table> ChooseDatasets(const Hdf5Layout& layout,
                                         const std::string& file,
                                         const FormatOptions& options) {
  return Choice(layout, file, options).Choose();
}

absl::StatusOr<std::vector<int>> MatchDatasets(const Hdf5Table& table,
                                               const Hdf5Layout& first,
                                               const std::string& first_file,
                                               const Hdf5Layout& layout,
                                               const std::string& file,
                                               int64_t* rows) {
  std::vector<int> sets;
  const auto differs = [&](const Hdf5Column& column, absl::string_view why) {
    return absl::DataLossError(
        absl::StrCat(file, ": dataset ", Quoted(column.path), " ", why,
                     "; write the file again like ", first_file,
                     ", or exclude it from the pattern"));
  };
  *rows = -1;
  for (const Hdf5Column& column : table.columns) {
    const auto found = absl::c_find_if(
        layout.datasets(),
        [&](const Hdf5Dataset& set) { return set.name() == column.path; });
    if (found == layout.datasets().end()) {
      return differs(column, "is missing");
    }
    if (!found->left_out().empty()) {
      return differs(column, CleanText(found->left_out(), 1000));
    }
    if (!SameType(*found, first.datasets(column.set))) {
      return differs(column,
                     "has another type or shape than in the first file");
    }
    const auto its_rows = static_cast<int64_t>(found->dims(0));
    if (its_rows == 0) return differs(column, "has no rows");
    if (*rows >= 0 && *rows != its_rows) {
      return differs(
          column, absl::StrCat("has ", CountText(its_rows, "row"), ", and ",
                               Quoted(table.columns[0].path), " has ", *rows));
    }
    *rows = its_rows;
    sets.push_back(static_cast<int>(found - layout.datasets().begin()));
  }
  return sets;
}

absl::Span<const uint8_t> WithoutPadding(const Hdf5Dataset& set,
                                         absl::Span<const uint8_t> value) {
  if (set.variable()) {
    // libhdf5 ends texts at the first 0; the heap may have more.
    return set.stored() == 0
               ? value.first(static_cast<size_t>(
                     std::find(value.begin(), value.end(), 0) - value.begin()))
               : value;
  }
  size_t size = value.size();
  switch (set.padding()) {
    case Hdf5Dataset::PADDING_NUL:
      // h5py stores bytes so: zeros inside belong to them.
      while (size > 0 && value[size - 1] == 0) --size;
      break;
    case Hdf5Dataset::PADDING_SPACE:
      while (size > 0 && value[size - 1] == ' ') --size;
      break;
    default:
      break;
  }
  return value.first(size);
}

absl::StatusOr<std::unique_ptr<ColumnRule>> ChooseHdf5Fields(
    const Hdf5Table& table, const Hdf5Layout& layout,
    const FormatOptions& options,
    const std::vector<absl::Span<const uint8_t>>& first_row) {
  std::vector<bool> encoded;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const Hdf5Dataset& set = layout.datasets(table.columns[i].set);
    encoded.push_back(
        Varies(set) &&
        (set.stored() == 0 || StoredOf(set) == StoredType::kUint8) &&
        IsEncodedImage(first_row[i]));
  }
  const FormatOptions choice = ChoiceOptions(table, layout, options, encoded);
  const auto label = choice.find("label");
  std::vector<ColumnDraft> drafts;
  std::string sizes;
  std::string values;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const Hdf5Column& column = table.columns[i];
    const Hdf5Dataset& set = layout.datasets(column.set);
    const std::string name = FieldName(column.name);
    const bool is_label = label != choice.end()
                              ? name == label->second
                              : absl::c_linear_search(kChoiceNames, name);
    drafts.push_back(DraftOf(column, set, first_row[i], is_label));
    if (first_row[i].size() > std::numeric_limits<uint32_t>::max()) {
      return absl::DataLossError(absl::StrCat(
          "row 0 of dataset ", Quoted(column.path), " has 4 GiB or more"));
    }
    if (Varies(set)) {
      const auto size = static_cast<uint32_t>(first_row[i].size());
      sizes.append(reinterpret_cast<const char*>(&size), sizeof(size));
    }
    values.append(reinterpret_cast<const char*>(first_row[i].data()),
                  first_row[i].size());
  }
  const std::string record = sizes + values;
  return ChooseFields(
      std::move(drafts), choice,
      {reinterpret_cast<const uint8_t*>(record.data()), record.size()});
}

}  // namespace millrace::storage
