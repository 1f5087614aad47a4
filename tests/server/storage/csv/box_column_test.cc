#include "server/storage/csv/box_column.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> Floats(const std::string& bytes) {
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

BoxValues Boxes(const std::vector<std::string>& cells) {
  BoxColumn column;
  for (const std::string& cell : cells) {
    const absl::Status added = column.Add(cell);
    EXPECT_TRUE(added.ok()) << added;
  }
  return std::move(column).Finish();
}

TEST(BoxColumn, EveryWriterHasItsOwnList) {
  for (const char* cell :
       {"1 2.5 -3 4e1", "1,2.5,-3,4e1", "[1, 2.5, -3, 4e1]", "(1;2.5;-3;4e1)",
        "[[1, 2.5, -3, 4e1]]", "[[ 1.   2.5\n -3.  40. ]]"}) {
    const BoxValues values = Boxes({cell});
    EXPECT_THAT(Floats(values.bytes), ElementsAre(1, 2.5, -3, 40)) << cell;
    EXPECT_EQ(values.field.name(), "boxes");
    EXPECT_EQ(values.field.kind(), FIELD_KIND_TENSOR);
    EXPECT_EQ(values.field.dtype(), DTYPE_FLOAT32);
    EXPECT_THAT(values.field.shape(), ElementsAre(1, 4));
  }
}

TEST(BoxColumn, AsManyBoxesInEachRowAreATensor) {
  const BoxValues values =
      Boxes({"[[1,2,3,4],[5,6,7,8]]", "9 10 11 12 13 14 15 16"});
  EXPECT_EQ(values.field.kind(), FIELD_KIND_TENSOR);
  EXPECT_THAT(values.field.shape(), ElementsAre(2, 4));
  EXPECT_TRUE(values.ends.empty());
  EXPECT_EQ(values.bytes.size(), 64);
}

TEST(BoxColumn, OtherNumbersOfBoxesAreRagged) {
  const BoxValues values =
      Boxes({"[]", "[[1,2,3,4],[5,6,7,8]]", "", "1 2 3 4"});
  EXPECT_EQ(values.field.kind(), FIELD_KIND_RAGGED);
  EXPECT_EQ(values.field.dtype(), DTYPE_FLOAT32);
  EXPECT_THAT(values.field.shape(), ElementsAre());
  EXPECT_THAT(values.ends, ElementsAre(0, 32, 32, 48));
  EXPECT_THAT(Floats(values.bytes),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4));
  // No box at all is no tensor.
  EXPECT_EQ(Boxes({"[]", ""}).field.kind(), FIELD_KIND_RAGGED);
}

TEST(BoxColumn, FourColumnsAreOneBox) {
  BoxColumn column;
  EXPECT_TRUE(column.AddCorners({"1", " 2.5", "3", "4"}).ok());
  EXPECT_TRUE(column.AddCorners({"5", "6", "7", "8"}).ok());
  const BoxValues values = std::move(column).Finish();
  EXPECT_THAT(values.field.shape(), ElementsAre(1, 4));
  EXPECT_THAT(Floats(values.bytes), ElementsAre(1, 2.5, 3, 4, 5, 6, 7, 8));
  BoxColumn bad;
  const absl::Status status = bad.AddCorners({"1", "", "3", "4"});
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("'' is no number"));
}

TEST(BoxColumn, OtherCellsAreRefused) {
  for (const auto& [cell, says] :
       {std::pair("1 2 3", "there are 3 numbers"),
        std::pair("[[1,2,3],[4,5,6,7,8]]", "a box has 3 numbers"),
        std::pair("[[1,2,3,4], 5]", "outside of the lists"),
        std::pair("[1,2,3,4", "a bracket is not closed"),
        std::pair("[[[1,2,3,4]]]", "a bracket is in the wrong place"),
        std::pair("1 [2 3 4]", "a bracket is in the wrong place"),
        std::pair("]", "a bracket is in the wrong place"),
        std::pair("[1,2,3,4] 5", "text follows the list"),
        std::pair("1 2 3 x", "'x' is no number"),
        std::pair("1 2 3 nan", "'n' is no number"),
        std::pair("1 2 3 1e99", "'1e99' is no number"),
        std::pair("1 2 3 -", "'-' is no number")}) {
    BoxColumn column;
    const absl::Status status = column.Add(cell);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << cell;
    EXPECT_THAT(status.message(), HasSubstr(says)) << cell;
    EXPECT_THAT(status.message(), HasSubstr("left, top, right, bottom"));
  }
}

}  // namespace
}  // namespace millrace::storage
