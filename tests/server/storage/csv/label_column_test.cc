#include "server/storage/csv/label_column.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace millrace::storage {
namespace {

LabelValues ValuesOf(const std::vector<std::string>& cells) {
  LabelColumn column("label");
  for (const std::string& cell : cells) {
    const absl::Status added = column.Add(cell);
    EXPECT_TRUE(added.ok()) << added;
  }
  return std::move(column).Finish();
}

template <typename T>
std::vector<T> Numbers(const LabelValues& values) {
  std::vector<T> numbers(values.bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), values.bytes.data(), values.bytes.size());
  return numbers;
}

std::vector<std::string> NamesOf(const LabelValues& values) {
  return {values.field.class_names().begin(), values.field.class_names().end()};
}

using Ints = std::vector<int64_t>;
using Names = std::vector<std::string>;

TEST(LabelColumn, WholeNumbersAreAsWritten) {
  const LabelValues values =
      ValuesOf({"3", "-1", "0", "3", "9223372036854775807"});
  EXPECT_EQ(values.field.name(), "label");
  EXPECT_EQ(values.field.kind(), FIELD_KIND_TENSOR);
  EXPECT_EQ(values.field.dtype(), DTYPE_INT64);
  EXPECT_EQ(values.field.shape_size(), 0);
  EXPECT_EQ(values.field.num_classes(), 0);
  EXPECT_EQ(Numbers<int64_t>(values), Ints({3, -1, 0, 3, INT64_MAX}));
}

TEST(LabelColumn, NumbersAreFloats) {
  const LabelValues values = ValuesOf({"1", "0.5", "-2e3", "1"});
  EXPECT_EQ(values.field.dtype(), DTYPE_FLOAT32);
  EXPECT_EQ(values.field.num_classes(), 0);
  EXPECT_EQ(Numbers<float>(values), std::vector<float>({1, 0.5, -2000, 1}));
}

TEST(LabelColumn, NamesAreClassesInBytewiseOrder) {
  const LabelValues values = ValuesOf({"dog", "cat", "Zebra", "cat", "10"});
  EXPECT_EQ(values.field.dtype(), DTYPE_INT64);
  EXPECT_EQ(NamesOf(values), Names({"10", "Zebra", "cat", "dog"}));
  EXPECT_EQ(values.field.num_classes(), 4);
  EXPECT_EQ(Numbers<int64_t>(values), Ints({3, 2, 1, 2, 0}));
}

TEST(LabelColumn, TextThatLooksLikeANumberIsAName) {
  for (const Names& cells : std::vector<Names>{{"01", "02"},
                                               {"1", "02"},
                                               {"+1", "n2"},
                                               {"nan", "1"},
                                               {"inf", "1"},
                                               {"0x10", "1"},
                                               {"1e999", "1"},
                                               {" 1", "2"}}) {
    EXPECT_EQ(ValuesOf(cells).field.num_classes(), 2) << cells[0];
  }
}

TEST(LabelColumn, RefusesCellsWithoutAValue) {
  LabelColumn column("kind");
  EXPECT_EQ(column.Add("").message(), "has no value in column 'kind'");
  EXPECT_EQ(column.Add("").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(column.Add("caf\xE9").message(),
            "has a value in column 'kind' that is no UTF-8");
}

TEST(LabelColumn, BoundsTheNumberOfClasses) {
  LabelColumn column("path", 3);
  for (const char* name : {"a", "b", "c", "b"}) {
    ASSERT_TRUE(column.Add(name).ok());
  }
  const absl::Status error = column.Add("d");
  EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error.message(),
            "has the name of a class in column 'path', which has more than 3 "
            "different ones");
  // Numbers are no classes.
  LabelColumn numbers("path", 3);
  for (const char* number : {"1", "2", "3", "4"}) {
    EXPECT_TRUE(numbers.Add(number).ok());
  }
}

std::optional<LabelColumn::OddCell> OddCellOf(
    const std::vector<std::string>& cells) {
  LabelColumn column("label");
  for (const std::string& cell : cells) EXPECT_TRUE(column.Add(cell).ok());
  return column.FindOddCell();
}

TEST(LabelColumn, ACellAmongNumbersIsOdd) {
  const Names digits = {"0", "1", "2", "3", "4", "5", "6", "7", "8"};
  for (const char* other : {"nan", "1 ", "x", "007", "4,5"}) {
    Names cells = digits;
    cells.insert(cells.begin() + 4, other);
    const auto odd = OddCellOf(cells);
    ASSERT_TRUE(odd.has_value()) << other;
    EXPECT_EQ(odd->cell, other);
    EXPECT_EQ(odd->row, 4);
    EXPECT_EQ(odd->numbers, 9);
    EXPECT_EQ(odd->rows, 10);
  }
  // However many: what stands for a missing number is no name.
  EXPECT_EQ(OddCellOf({"NaN", "1.5", "-inf", "<NA>"})->cell, "NaN");
  EXPECT_FALSE(OddCellOf(digits).has_value());
  EXPECT_FALSE(OddCellOf({"1", "2", "a"}).has_value());
  EXPECT_FALSE(OddCellOf({"001", "002", "100"}).has_value());
  EXPECT_FALSE(OddCellOf({"nan", "none"}).has_value());
}

}  // namespace
}  // namespace millrace::storage
