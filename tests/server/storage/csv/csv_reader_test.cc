#include "server/storage/csv/csv_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace millrace::storage {
namespace {

using std::string_literals::operator""s;
using Cells = std::vector<std::string>;
// Each row with its line.
using Rows = std::vector<std::pair<int64_t, Cells>>;

absl::StatusOr<Rows> Read(const std::string& text, char separator = ',') {
  CsvReader reader(text, separator);
  Rows rows;
  Cells cells;
  while (true) {
    const auto found = reader.Next(&cells);
    if (!found.ok()) return found.status();
    if (!*found) return rows;
    rows.emplace_back(reader.line(), cells);
  }
}

std::string ErrorOf(const std::string& text) {
  const absl::Status error = Read(text).status();
  EXPECT_EQ(error.code(), absl::StatusCode::kDataLoss);
  return std::string(error.message());
}

TEST(CsvReader, SplitsRowsAndCells) {
  EXPECT_EQ(*Read(""), Rows());
  EXPECT_EQ(*Read("a,b\nc,d\n"), Rows({{1, {"a", "b"}}, {2, {"c", "d"}}}));
  EXPECT_EQ(*Read("a,b\r\nc,d"), Rows({{1, {"a", "b"}}, {2, {"c", "d"}}}));
  EXPECT_EQ(*Read(",\n"), Rows({{1, {"", ""}}}));
  EXPECT_EQ(*Read("a,"), Rows({{1, {"a", ""}}}));
  EXPECT_EQ(*Read("a,b\r"), Rows({{1, {"a", "b"}}}));
  EXPECT_EQ(*Read("a\tb, c\n", '\t'), Rows({{1, {"a", "b, c"}}}));
}

TEST(CsvReader, RowsMayDifferInTheirNumberOfCells) {
  EXPECT_EQ(*Read("a,b,c\nd\ne,f\n"),
            Rows({{1, {"a", "b", "c"}}, {2, {"d"}}, {3, {"e", "f"}}}));
}

TEST(CsvReader, QuotedCellsHoldAnything) {
  EXPECT_EQ(*Read("\"a,b\",\"c \"\"d\"\"\",\"\"\n"),
            Rows({{1, {"a,b", "c \"d\"", ""}}}));
  EXPECT_EQ(
      *Read("\"two\r\nlines\",x\ny,\"\n\n\"\nz,z\n"),
      Rows({{1, {"two\r\nlines", "x"}}, {3, {"y", "\n\n"}}, {6, {"z", "z"}}}));
  EXPECT_EQ(*Read("\"a\""), Rows({{1, {"a"}}}));
  EXPECT_EQ(*Read("\"a\"\r\n"), Rows({{1, {"a"}}}));
}

TEST(CsvReader, AQuoteInsideACellIsText) {
  EXPECT_EQ(*Read("12\" vinyl.jpg,5'11\"\n"),
            Rows({{1, {"12\" vinyl.jpg", "5'11\""}}}));
}

TEST(CsvReader, SkipsBlankLinesAndAByteOrderMark) {
  EXPECT_EQ(*Read("\xEF\xBB\xBF\n\r\na\n\n\nb\n\n"),
            Rows({{3, {"a"}}, {6, {"b"}}}));
  EXPECT_EQ(*Read("\xEF\xBB\xBF\"a\"\n"), Rows({{1, {"a"}}}));
}

TEST(CsvReader, CellsHoldOddBytes) {
  EXPECT_EQ(*Read("\xFF\xFE,\x01 \x7F\n"),
            Rows({{1, {"\xFF\xFE", "\x01 \x7F"}}}));
}

TEST(CsvReader, NamesTheLineOfADamagedRow) {
  EXPECT_EQ(ErrorOf("a,b\nc,\"d\ne,f\n"),
            "line 2: a quote is not closed: close it, or double a quote that "
            "is part of a cell (\"\")");
  EXPECT_EQ(ErrorOf("a,b\n\"c\"d,e\n"),
            "line 2: there is text behind the closing quote of a cell: double "
            "a quote that is part of a cell (\"\")");
  EXPECT_EQ(ErrorOf("a\0b\n"s),
            "line 1: a cell has a zero byte: the file is no text, or it is "
            "UTF-16; write it as UTF-8");
  EXPECT_THAT(ErrorOf("\n\"\0\"\n"s), ::testing::HasSubstr("line 2: a cell"));
}

TEST(CsvReader, BoundsCellsAndColumns) {
  const std::string most(kMaxCsvCellBytes, 'x');
  EXPECT_TRUE(Read(most + ",a\n").ok());
  EXPECT_TRUE(Read("\"" + most + "\",a\n").ok());
  EXPECT_EQ(ErrorOf(most + "x,a\n"),
            "line 1: a cell has more than 65536 bytes");
  EXPECT_EQ(ErrorOf("a\n\"" + most + "x\"\n"),
            "line 2: a cell has more than 65536 bytes; a quote may be missing");
  EXPECT_EQ(Read(std::string(kMaxCsvColumns - 1, ','))->front().second.size(),
            kMaxCsvColumns);
  EXPECT_EQ(ErrorOf(std::string(kMaxCsvColumns, ',')),
            "line 1: there are more than 4096 columns");
}

}  // namespace
}  // namespace millrace::storage
