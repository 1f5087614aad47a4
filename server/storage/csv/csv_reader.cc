#include "server/storage/csv/csv_reader.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

CsvReader::CsvReader(absl::string_view text, char separator)
    : rest_(absl::StripPrefix(text, kByteOrderMark)), separator_(separator) {}

absl::Status CsvReader::Damaged(int64_t line, absl::string_view what) const {
  return absl::DataLossError(absl::StrCat("line ", line, ": ", what));
}

bool CsvReader::AtLineEnd(size_t* bytes) const {
  *bytes = absl::StartsWith(rest_, "\n")     ? 1
           : absl::StartsWith(rest_, "\r\n") ? 2
                                             : 0;
  return *bytes > 0;
}

absl::Status CsvReader::ReadQuoted(std::string* cell) {
  const int64_t first_line = line_;
  rest_.remove_prefix(1);
  while (true) {
    const size_t quote = rest_.find('"');
    if (quote == rest_.npos) {
      return Damaged(first_line,
                     "a quote is not closed: close it, or double a quote that "
                     "is part of a cell (\"\")");
    }
    if (cell->size() + quote > kMaxCsvCellBytes) {
      return Damaged(first_line,
                     absl::StrCat("a cell has more than ", kMaxCsvCellBytes,
                                  " bytes; a quote may be missing"));
    }
    const absl::string_view part = rest_.substr(0, quote);
    absl::StrAppend(cell, part);
    line_ += std::count(part.begin(), part.end(), '\n');
    rest_.remove_prefix(quote + 1);
    if (!absl::ConsumePrefix(&rest_, "\"")) break;
    cell->push_back('"');
  }
  size_t bytes;
  if (!rest_.empty() && rest_[0] != separator_ && !AtLineEnd(&bytes)) {
    return Damaged(line_,
                   "there is text behind the closing quote of a cell: double a "
                   "quote that is part of a cell (\"\")");
  }
  return absl::OkStatus();
}

absl::Status CsvReader::ReadCell(std::string* cell) {
  cell->clear();
  if (absl::StartsWith(rest_, "\"")) {
    MR_RETURN_IF_ERROR(ReadQuoted(cell));
  } else {
    const char ends[] = {separator_, '\n'};
    size_t end = rest_.find_first_of(absl::string_view(ends, sizeof(ends)));
    if (end == rest_.npos) end = rest_.size();
    // Of a line that ends with CR and LF, or of the last line.
    if (end > 0 && rest_[end - 1] == '\r' &&
        (end == rest_.size() || rest_[end] == '\n')) {
      --end;
    }
    if (end > kMaxCsvCellBytes) {
      return Damaged(line_, absl::StrCat("a cell has more than ",
                                         kMaxCsvCellBytes, " bytes"));
    }
    cell->assign(rest_.data(), end);
    rest_.remove_prefix(end);
    if (rest_ == "\r") rest_ = {};
  }
  if (cell->find('\0') != cell->npos) {
    return Damaged(row_line_,
                   "a cell has a zero byte: the file is no text, or it is "
                   "UTF-16; write it as UTF-8");
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> CsvReader::Next(std::vector<std::string>* cells) {
  size_t end;
  while (AtLineEnd(&end)) {
    rest_.remove_prefix(end);
    ++line_;
  }
  if (rest_.empty()) return false;
  row_line_ = line_;
  size_t count = 0;
  while (true) {
    if (count == kMaxCsvColumns) {
      return Damaged(row_line_, absl::StrCat("there are more than ",
                                             kMaxCsvColumns, " columns"));
    }
    if (cells->size() == count) cells->emplace_back();
    MR_RETURN_IF_ERROR(ReadCell(&(*cells)[count++]));
    if (rest_.empty()) break;
    if (AtLineEnd(&end)) {
      rest_.remove_prefix(end);
      ++line_;
      break;
    }
    rest_.remove_prefix(1);  // the separator
  }
  cells->resize(count);
  return true;
}

}  // namespace millrace::storage
