#include "server/storage/csv/box_column.h"

#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/clean_text.h"
#include "common/status_macros.h"

namespace millrace::storage {
namespace {

constexpr size_t kMaxQuotedBytes = 200;
constexpr size_t kBoxBytes = 4 * sizeof(float);

bool IsPartOfNumber(char c) {
  return absl::ascii_isdigit(c) || c == '.' || c == '-' || c == '+' ||
         c == 'e' || c == 'E';
}

absl::Status NoBoxes(absl::string_view cell, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(
      "has the boxes '", CleanText(cell, kMaxQuotedBytes), "', and ", why,
      "; write four numbers for each box: left, top, right, bottom"));
}

}  // namespace

absl::Status BoxColumn::AddNumber(absl::string_view text,
                                  absl::string_view cell) {
  float number;
  if (text.empty() || !absl::SimpleAtof(text, &number) ||
      !std::isfinite(number)) {
    return NoBoxes(cell, absl::StrCat("'", CleanText(text, kMaxQuotedBytes),
                                      "' is no number"));
  }
  bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  return absl::OkStatus();
}

void BoxColumn::EndRow() {
  ends_.push_back(bytes_.size());
  same_ = same_ && bytes_.size() == ends_.size() * ends_[0];
}

absl::Status BoxColumn::Add(absl::string_view cell) {
  const size_t row_begin = bytes_.size();
  int depth = 0;
  bool nested = false;
  bool closed = false;  // the outer list has ended
  size_t list_begin = row_begin;
  for (size_t at = 0; at < cell.size();) {
    const char c = cell[at];
    if (absl::ascii_isspace(c) || c == ',' || c == ';') {
      ++at;
    } else if (closed) {
      return NoBoxes(cell, "text follows the list");
    } else if (c == '[' || c == '(') {
      // Numbers stand in the innermost lists alone.
      if (depth == 2 || bytes_.size() != list_begin) {
        return NoBoxes(cell, "a bracket is in the wrong place");
      }
      ++depth;
      nested = nested || depth == 2;
      ++at;
    } else if (c == ']' || c == ')') {
      if (depth == 0) return NoBoxes(cell, "a bracket is in the wrong place");
      const size_t bytes = bytes_.size() - list_begin;
      if (depth == 2 && bytes != kBoxBytes) {
        return NoBoxes(cell, absl::StrCat("a box has ", bytes / sizeof(float),
                                          " numbers"));
      }
      list_begin = bytes_.size();
      closed = --depth == 0;
      ++at;
    } else {
      if (nested && depth < 2) {
        return NoBoxes(cell, "a number is outside of the lists of boxes");
      }
      size_t end = at;
      while (end < cell.size() && IsPartOfNumber(cell[end])) ++end;
      if (end == at) end = at + 1;  // to be named
      MR_RETURN_IF_ERROR(AddNumber(cell.substr(at, end - at), cell));
      at = end;
    }
  }
  if (depth > 0) return NoBoxes(cell, "a bracket is not closed");
  if ((bytes_.size() - row_begin) % kBoxBytes != 0) {
    return NoBoxes(
        cell,
        absl::StrCat("there are ", (bytes_.size() - row_begin) / sizeof(float),
                     " numbers"));
  }
  EndRow();
  return absl::OkStatus();
}

absl::Status BoxColumn::AddCorners(absl::Span<const absl::string_view> cells) {
  for (const absl::string_view cell : cells) {
    MR_RETURN_IF_ERROR(AddNumber(absl::StripAsciiWhitespace(cell), cell));
  }
  EndRow();
  return absl::OkStatus();
}

BoxValues BoxColumn::Finish() && {
  BoxValues values;
  values.field.set_name("boxes");
  values.field.set_dtype(DTYPE_FLOAT32);
  if (same_ && ends_[0] > 0) {
    values.field.set_kind(FIELD_KIND_TENSOR);
    values.field.add_shape(static_cast<int64_t>(ends_[0] / kBoxBytes));
    values.field.add_shape(4);
  } else {
    values.field.set_kind(FIELD_KIND_RAGGED);
    values.ends = std::move(ends_);
  }
  values.bytes = std::move(bytes_);
  return values;
}

}  // namespace millrace::storage
