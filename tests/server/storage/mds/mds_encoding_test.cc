#include "server/storage/mds/mds_encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/storage/chunks/chunk_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

TEST(MdsEncodingTest, EveryEncodingHasItsKind) {
  const struct {
    const char* encoding;
    uint64_t bytes;
    ColumnKind kind;
    StoredType stored;
  } cases[] = {
      {"jpeg", 0, ColumnKind::kImage, StoredType::kBytes},
      {"png", 0, ColumnKind::kImage, StoredType::kBytes},
      {"pil", 0, ColumnKind::kHeaderArray, StoredType::kBytes},
      {"int", 8, ColumnKind::kScalar, StoredType::kInt64},
      {"uint8", 1, ColumnKind::kScalar, StoredType::kUint8},
      {"uint64", 8, ColumnKind::kScalar, StoredType::kUint64},
      {"float16", 2, ColumnKind::kScalar, StoredType::kFloat16},
      {"str_int", 0, ColumnKind::kScalar, StoredType::kIntText},
      {"str_float", 0, ColumnKind::kScalar, StoredType::kFloatText},
      {"ndarray", 0, ColumnKind::kHeaderArray, StoredType::kBytes},
      {"ndarray:int8", 0, ColumnKind::kHeaderArray, StoredType::kInt8},
      {"ndarray:float32:3,4", 48, ColumnKind::kArray, StoredType::kFloat32},
      {"str", 0, ColumnKind::kBytes, StoredType::kBytes},
      {"bytes", 0, ColumnKind::kBytes, StoredType::kBytes},
      {"json", 0, ColumnKind::kBytes, StoredType::kBytes},
      {"pkl", 0, ColumnKind::kBytes, StoredType::kBytes},
      {"str_decimal", 0, ColumnKind::kBytes, StoredType::kBytes},
      {"jpeg_array", 0, ColumnKind::kBytes, StoredType::kBytes},
      {"list[png]", 0, ColumnKind::kBytes, StoredType::kBytes},
      // Of a user.
      {"triple", 24, ColumnKind::kBytes, StoredType::kBytes},
  };
  for (const auto& [encoding, bytes, kind, stored] : cases) {
    const auto draft = DraftOfMdsColumn("x", encoding, bytes);
    ASSERT_TRUE(draft.ok()) << encoding << draft.status();
    EXPECT_EQ(draft->kind, kind) << encoding;
    EXPECT_EQ(draft->stored, stored) << encoding;
    EXPECT_EQ(draft->bytes, bytes) << encoding;
  }
  EXPECT_EQ(DraftOfMdsColumn("x", "ndarray:float32:3,4", 48)->shape,
            (std::vector<int64_t>{3, 4}));
}

TEST(MdsEncodingTest, BytesNamedImageAreAnImage) {
  EXPECT_EQ(DraftOfMdsColumn("image", "bytes", 0)->kind, ColumnKind::kImage);
  EXPECT_EQ(DraftOfMdsColumn("image", "str", 0)->kind, ColumnKind::kBytes);
}

TEST(MdsEncodingTest, ASizeThatIsNotOfTheEncodingIsDamage) {
  const auto wrong = DraftOfMdsColumn("x", "int", 4);
  EXPECT_TRUE(absl::IsDataLoss(wrong.status()));
  EXPECT_EQ(wrong.status().message(),
            "column 'x' has 4 bytes by column_sizes, and by its encoding 'int' "
            "it has 8");
  EXPECT_EQ(DraftOfMdsColumn("x", "jpeg", 4).status().message(),
            "column 'x' has 4 bytes by column_sizes, and by its encoding "
            "'jpeg' the sizes vary");
  EXPECT_THAT(DraftOfMdsColumn("x", "int", 0).status().message(),
              HasSubstr("has values of varying sizes by column_sizes"));
  EXPECT_FALSE(DraftOfMdsColumn("x", "ndarray:float32:3", 48).ok());
  // A product of 2^66.
  EXPECT_FALSE(
      DraftOfMdsColumn("x", "ndarray:uint8:4294967296,4294967296,4", 0).ok());
}

TEST(MdsEncodingTest, AnArrayOfNoTypeOrShapeIsDamage) {
  for (const char* encoding :
       {"ndarray:", "ndarray:str", "ndarray:int8:", "ndarray:int8:0",
        "ndarray:int8:2,x", "ndarray:int8:2:3", "ndarrays"}) {
    const auto draft = DraftOfMdsColumn("x", encoding, 0);
    EXPECT_TRUE(absl::IsDataLoss(draft.status())) << encoding;
    EXPECT_THAT(draft.status().message(), HasSubstr(encoding));
  }
}

TEST(MdsEncodingTest, HeadersOfArraysGiveTypeAndShape) {
  // int16, 2 dimensions with u16 extents.
  const std::string header = std::string("\x11\x09", 2) +
                             RawBytes<uint16_t>(300) + RawBytes<uint16_t>(2);
  const auto array = ParseMdsArray(StoredType::kBytes, SpanOf(header));
  ASSERT_TRUE(array.ok() && array->has_value()) << array.status();
  EXPECT_EQ((*array)->stored, StoredType::kInt16);
  EXPECT_EQ((*array)->shape, (std::vector<int64_t>{300, 2}));
  EXPECT_EQ((*array)->bytes, 6u);
  const auto typed =
      ParseMdsArray(StoredType::kFloat32, SpanOf(std::string("\x04\x03", 2)));
  ASSERT_TRUE(typed.ok() && typed->has_value());
  EXPECT_EQ((*typed)->stored, StoredType::kFloat32);
  EXPECT_EQ((*typed)->shape, (std::vector<int64_t>{3}));
  for (size_t bytes = 0; bytes < header.size(); ++bytes) {
    EXPECT_TRUE(absl::IsDataLoss(
        ParseMdsArray(StoredType::kBytes, SpanOf(header.substr(0, bytes)))
            .status()))
        << bytes;
  }
  // A type that the format does not have.
  EXPECT_FALSE(
      ParseMdsArray(StoredType::kBytes, SpanOf("\x07\x04\x01"))->has_value());
}

}  // namespace
}  // namespace millrace::storage
