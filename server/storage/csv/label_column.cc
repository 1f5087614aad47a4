#include "server/storage/csv/label_column.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/utf8.h"

namespace millrace::storage {
namespace {

bool IsWholeNumber(absl::string_view cell) {
  int64_t value;
  // The same text again: no sign, zeros or spaces that a name may have.
  return absl::SimpleAtoi(cell, &value) && absl::StrCat(value) == cell;
}

// Not the words that strtod takes for numbers.
bool IsNumber(absl::string_view cell) {
  float value;
  return std::all_of(cell.begin(), cell.end(),
                     [](char c) {
                       return absl::ascii_isdigit(c) || c == '.' || c == '-' ||
                              c == '+' || c == 'e' || c == 'E';
                     }) &&
         absl::SimpleAtof(cell, &value) && std::isfinite(value);
}

// 01 and 02 are names: of a number, no digit follows a zero at its beginning.
bool HasLeadingZero(absl::string_view cell) {
  if (!cell.empty() && cell[0] == '-') cell.remove_prefix(1);
  return cell.size() >= 2 && cell[0] == '0' && absl::ascii_isdigit(cell[1]);
}

// What programs write where a number is missing or is none.
bool IsMissing(absl::string_view cell) {
  if (!absl::ConsumePrefix(&cell, "-")) absl::ConsumePrefix(&cell, "+");
  const std::string word = absl::AsciiStrToLower(cell);
  return word == "nan" || word == "inf" || word == "infinity" ||
         word == "none" || word == "null" || word == "na" || word == "n/a" ||
         word == "<na>";
}

// Names are taken for mistakes if so many rows with numbers stand beside each.
constexpr size_t kNumbersForEachOther = 9;

template <typename T>
void Append(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

absl::Status LabelColumn::Add(absl::string_view cell) {
  if (cell.empty()) {
    return absl::DataLossError(
        absl::StrCat("has no value in column '", name_, "'"));
  }
  const auto known = numbers_of_cells_.find(cell);
  if (known != numbers_of_cells_.end()) {
    rows_.push_back(known->second);
    return absl::OkStatus();
  }
  if (!IsUtf8(cell)) {
    return absl::DataLossError(
        absl::StrCat("has a value in column '", name_, "' that is no UTF-8"));
  }
  whole_numbers_ = whole_numbers_ && IsWholeNumber(cell);
  numbers_ = numbers_ && IsNumber(cell) && !HasLeadingZero(cell);
  if (numbers_of_cells_.size() >= max_classes_ && !numbers_) {
    return absl::InvalidArgumentError(
        absl::StrCat("has the name of a class in column '", name_, "', which ",
                     "has more than ", max_classes_, " different ones"));
  }
  const auto number = static_cast<uint32_t>(numbers_of_cells_.size());
  numbers_of_cells_.emplace(cell, number);
  rows_.push_back(number);
  return absl::OkStatus();
}

std::optional<LabelColumn::OddCell> LabelColumn::FindOddCell() const {
  if (numbers_) return std::nullopt;
  std::vector<char> is_number(numbers_of_cells_.size());
  std::vector<const std::string*> cells(numbers_of_cells_.size());
  bool others_are_missing = true;
  for (const auto& [cell, number] : numbers_of_cells_) {
    cells[number] = &cell;
    is_number[number] = IsNumber(cell) && !HasLeadingZero(cell);
    others_are_missing &= is_number[number] || IsMissing(cell);
  }
  OddCell odd = {.rows = rows_.size()};
  size_t row = rows_.size();
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (is_number[rows_[i]]) {
      ++odd.numbers;
    } else if (row == rows_.size()) {
      row = i;
    }
  }
  const size_t others = odd.rows - odd.numbers;
  const bool most = odd.numbers >= kNumbersForEachOther * others;
  if (odd.numbers == 0 || !(most || others_are_missing)) return std::nullopt;
  odd.row = row;
  odd.cell = *cells[rows_[row]];
  return odd;
}

LabelValues LabelColumn::Finish() && {
  LabelValues values;
  values.field.set_name(name_);
  values.field.set_kind(FIELD_KIND_TENSOR);
  values.field.set_dtype(numbers_ && !whole_numbers_ ? DTYPE_FLOAT32
                                                     : DTYPE_INT64);
  // In bytewise order, with their numbers.
  std::vector<std::pair<absl::string_view, uint32_t>> cells(
      numbers_of_cells_.begin(), numbers_of_cells_.end());
  std::sort(cells.begin(), cells.end());
  std::vector<std::string> encoded(cells.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    const auto& [cell, number] = cells[i];
    if (whole_numbers_) {
      int64_t value = 0;
      static_cast<void>(absl::SimpleAtoi(cell, &value));  // checked by Add()
      Append(value, &encoded[number]);
    } else if (numbers_) {
      float value = 0;
      static_cast<void>(absl::SimpleAtof(cell, &value));
      Append(value, &encoded[number]);
    } else {
      Append(static_cast<int64_t>(i), &encoded[number]);
      values.field.add_class_names(std::string(cell));
    }
  }
  values.field.set_num_classes(values.field.class_names_size());
  for (const uint32_t number : rows_) values.bytes += encoded[number];
  return values;
}

}  // namespace millrace::storage
