#include "server/storage/foreign_lmdb/class_labels.h"

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/clean_text.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "common/utf8.h"

namespace millrace::storage {
namespace {

using LabelFrom = ForeignOptions::LabelFrom;

constexpr size_t kShownBytes = 120;

bool ParseNumber(absl::string_view text, int64_t* number) {
  return absl::SimpleAtoi(text, number);
}

}  // namespace

absl::StatusOr<ClassLabels> ClassLabels::Create(const ForeignOptions& options,
                                                const ExtentUri& uri,
                                                size_t room) {
  ClassLabels labels(options, uri);
  labels.classes_.reserve(room);
  labels.names_ = options.label_from == LabelFrom::kPrefix ||
                  options.label_from == LabelFrom::kPattern;
  if (options.label_from == LabelFrom::kFile) {
    MR_RETURN_IF_ERROR(labels.ReadLabels());
  }
  if (labels.names_) MR_RETURN_IF_ERROR(labels.StartNames());
  return labels;
}

absl::Status ClassLabels::StartNames() {
  names_ = true;
  if (uri_.label_offset != 0) {
    return absl::InvalidArgumentError(
        "the labels are names, and label_offset is for numbers: remove it");
  }
  if (uri_.classes_file.empty()) return absl::OkStatus();
  Schema schema;
  schema.add_fields();
  MR_RETURN_IF_ERROR(uri_.ApplyTo(0, &schema));
  for (const std::string& name : schema.fields(0).class_names()) {
    const auto number = static_cast<int32_t>(numbers_.size());
    numbers_.emplace(name, number);
  }
  names_given_ = true;
  return absl::OkStatus();
}

absl::Status ClassLabels::ReadLabels() {
  text_ = std::make_unique<std::string>();
  MR_RETURN_IF_ERROR(ReadRegularFile(file_, text_.get()));
  absl::string_view rest = *text_;
  absl::ConsumeSuffix(&rest, "\n");
  size_t line_number = 0;
  bool numbers = true;
  for (absl::string_view line : absl::StrSplit(rest, '\n')) {
    ++line_number;
    absl::ConsumeSuffix(&line, "\r");
    // The key may have a tab, the label has none.
    const size_t tab = line.rfind('\t');
    if (tab == line.npos || tab == 0 || tab + 1 == line.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", line_number, " of ", file_, " is not KEY<TAB>LABEL: '",
          CleanText(line, kShownBytes), "'"));
    }
    int64_t number;
    numbers &= ParseNumber(line.substr(tab + 1), &number);
    lines_.emplace_back(line.substr(0, tab), line.substr(tab + 1));
  }
  std::sort(lines_.begin(), lines_.end());
  for (size_t i = 1; i < lines_.size(); ++i) {
    if (lines_[i].first != lines_[i - 1].first) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(file_, " has two lines for key '",
                     CleanText(lines_[i].first, kShownBytes), "'"));
  }
  names_ = !numbers;
  return absl::OkStatus();
}

absl::Status ClassLabels::AddNumber(absl::string_view label) {
  int64_t number;
  // An index that does not fit into the offset is out of range, too.
  if (!ParseNumber(label, &number) ||
      number > std::numeric_limits<int32_t>::max() ||
      number < std::numeric_limits<int32_t>::min()) {
    return absl::DataLossError(absl::StrCat(
        "has label '", CleanText(label, kShownBytes), "', which is no number"));
  }
  const int64_t index = number + uri_.label_offset;
  if (index < 0 || index >= std::numeric_limits<int32_t>::max()) {
    return absl::DataLossError(absl::StrCat(
        "has label ", number, ", which gives class index ", index, ": ",
        number >= 0 && index < 0 ? "remove the option label_offset, or set it"
                                 : "set the option label_offset",
        " so that class indices begin at 0"));
  }
  largest_ = std::max(largest_, index);
  classes_.push_back(static_cast<int32_t>(index));
  return absl::OkStatus();
}

absl::Status ClassLabels::AddName(absl::string_view name) {
  auto it = numbers_.find(name);
  if (it == numbers_.end()) {
    if (names_given_) {
      return absl::DataLossError(
          absl::StrCat("is of class '", CleanText(name, kShownBytes),
                       "', which the file of the option classes does not "
                       "name"));
    }
    if (!IsUtf8(name)) {
      return absl::DataLossError(
          absl::StrCat("is of class '", CleanText(name, kShownBytes),
                       "', and the name of a class must be UTF-8"));
    }
    if (numbers_.size() == kMaxKeyClasses) {
      return absl::InvalidArgumentError(absl::StrCat(
          "is of class number ", kMaxKeyClasses + 1,
          ", more than names of classes may be: the option does not fit these "
          "keys"));
    }
    it = numbers_.emplace(name, static_cast<int32_t>(numbers_.size())).first;
  }
  classes_.push_back(it->second);
  return absl::OkStatus();
}

absl::Status ClassLabels::AddValue(absl::string_view label) {
  int64_t number;
  const bool is_number = ParseNumber(label, &number);
  if (classes_.empty() && !is_number) MR_RETURN_IF_ERROR(StartNames());
  if (!names_) return AddNumber(label);
  if (label.empty()) return absl::DataLossError("has an empty label");
  if (is_number) {
    return absl::DataLossError(
        absl::StrCat("has label ", number,
                     ", and the first label of the dataset is a name: labels "
                     "must be numbers, or names"));
  }
  return AddName(label);
}

absl::Status ClassLabels::Add(absl::string_view key, absl::string_view label) {
  if (from_ == LabelFrom::kPrefix) {
    const absl::string_view name = ClassPrefixOf(key);
    if (!name.empty()) return AddName(name);
    return absl::DataLossError(
        "has no class: neither '/' nor '_' stands behind a name");
  }
  if (from_ == LabelFrom::kPattern) {
    const absl::string_view name = pattern_->ClassOf(key);
    if (!name.empty()) return AddName(name);
    return absl::DataLossError(
        "has no class: the key does not match the pattern of the option label");
  }
  if (from_ == LabelFrom::kKey) {
    return AddValue(absl::StripAsciiWhitespace(label));
  }
  const auto line = std::lower_bound(
      lines_.begin(), lines_.end(), key,
      [](const auto& a, absl::string_view b) { return a.first < b; });
  if (line == lines_.end() || line->first != key) {
    return absl::DataLossError(absl::StrCat("has no line in ", file_));
  }
  return names_ ? AddName(line->second) : AddNumber(line->second);
}

absl::StatusOr<std::vector<int32_t>> ClassLabels::Finish(Field* field) {
  if (!names_) {
    field->set_num_classes(largest_ + 1);
    return std::move(classes_);
  }
  field->set_num_classes(static_cast<int64_t>(numbers_.size()));
  std::vector<std::string> names(numbers_.size());
  for (const auto& [name, number] : numbers_) names[number] = name;
  if (names_given_) {
    for (const std::string& name : names) field->add_class_names(name);
    return std::move(classes_);
  }
  // As of folders of images and tables.
  std::vector<int32_t> order(names.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::sort(order.begin(), order.end(),
            [&names](int32_t a, int32_t b) { return names[a] < names[b]; });
  std::vector<int32_t> place(names.size());
  for (size_t i = 0; i < order.size(); ++i) {
    field->add_class_names(names[order[i]]);
    place[order[i]] = static_cast<int32_t>(i);
  }
  for (int32_t& index : classes_) index = place[index];
  return std::move(classes_);
}

}  // namespace millrace::storage
