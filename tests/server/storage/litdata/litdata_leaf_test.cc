#include "server/storage/litdata/litdata_leaf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/storage/chunks/chunk_testing.h"

namespace millrace::storage {
namespace {

TEST(LitdataLeafTest, EveryFormatHasItsKind) {
  const struct {
    const char* format;
    ColumnKind kind;
    StoredType stored;
  } cases[] = {
      {"jpeg", ColumnKind::kImage, StoredType::kBytes},
      {"image:png", ColumnKind::kImage, StoredType::kBytes},
      {"image:webp", ColumnKind::kImage, StoredType::kBytes},
      {"image:gif", ColumnKind::kBytes, StoredType::kBytes},
      {"file:jpg", ColumnKind::kImage, StoredType::kBytes},
      {"file:txt", ColumnKind::kBytes, StoredType::kBytes},
      {"file", ColumnKind::kBytes, StoredType::kBytes},
      {"pil", ColumnKind::kHeaderArray, StoredType::kBytes},
      {"tensor", ColumnKind::kHeaderArray, StoredType::kBytes},
      {"numpy", ColumnKind::kHeaderArray, StoredType::kBytes},
      {"no_header_tensor:17", ColumnKind::kPlainArray, StoredType::kInt64},
      {"no_header_tensor:18", ColumnKind::kPlainArray, StoredType::kInt64},
      {"no_header_tensor:1", ColumnKind::kPlainArray, StoredType::kFloat32},
      {"no_header_tensor:4", ColumnKind::kBytes, StoredType::kBytes},
      {"no_header_tensor:21", ColumnKind::kBytes, StoredType::kBytes},
      {"no_header_tensor:x", ColumnKind::kBytes, StoredType::kBytes},
      {"no_header_tensor", ColumnKind::kBytes, StoredType::kBytes},
      {"no_header_numpy:1", ColumnKind::kPlainArray, StoredType::kInt16},
      {"no_header_numpy:7", ColumnKind::kPlainArray, StoredType::kUint64},
      {"no_header_numpy:13", ColumnKind::kPlainArray, StoredType::kBool},
      {"no_header_numpy:14", ColumnKind::kBytes, StoredType::kBytes},
      {"int", ColumnKind::kScalar, StoredType::kInt64},
      {"float", ColumnKind::kScalar, StoredType::kFloat64},
      {"bool", ColumnKind::kScalar, StoredType::kBool},
      {"str", ColumnKind::kBytes, StoredType::kBytes},
      {"pickle", ColumnKind::kBytes, StoredType::kBytes},
      {"video:mp4", ColumnKind::kBytes, StoredType::kBytes},
      {"", ColumnKind::kBytes, StoredType::kBytes},
  };
  for (const auto& [format, kind, stored] : cases) {
    const ColumnDraft draft = DraftOfLeaf("x", false, format);
    EXPECT_EQ(draft.kind, kind) << format;
    EXPECT_EQ(draft.stored, stored) << format;
    EXPECT_EQ(draft.bytes, 0u) << format;
  }
  EXPECT_EQ(DraftOfLeaf("image", false, "bytes").kind, ColumnKind::kImage);
  EXPECT_EQ(DraftOfLeaf("image", false, "str").kind, ColumnKind::kBytes);
}

std::string Swapped(uint32_t number) {
  return RawBytes(__builtin_bswap32(number));
}

TEST(LitdataLeafTest, HeadersOfArraysGiveTypeAndShape) {
  // float32 of torch, uint32 of NumPy.
  const std::string torch = Swapped(1) + Swapped(2) + Swapped(3) + Swapped(4);
  const auto tensor = ParseTorchArray(SpanOf(torch));
  ASSERT_TRUE(tensor.ok() && tensor->has_value()) << tensor.status();
  EXPECT_EQ((*tensor)->stored, StoredType::kFloat32);
  EXPECT_EQ((*tensor)->shape, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ((*tensor)->bytes, 16u);
  const std::string numpy =
      RawBytes<uint32_t>(6) + RawBytes<uint32_t>(1) + RawBytes<uint32_t>(5);
  const auto array = ParseNumpyArray(SpanOf(numpy));
  ASSERT_TRUE(array.ok() && array->has_value()) << array.status();
  EXPECT_EQ((*array)->stored, StoredType::kUint32);
  EXPECT_EQ((*array)->shape, (std::vector<int64_t>{5}));
  for (size_t bytes = 0; bytes < numpy.size(); ++bytes) {
    EXPECT_TRUE(absl::IsDataLoss(
        ParseNumpyArray(SpanOf(numpy.substr(0, bytes))).status()))
        << bytes;
  }
  // More dimensions than bytes; complex numbers; a type that does not exist.
  EXPECT_FALSE(
      ParseNumpyArray(SpanOf(RawBytes<uint32_t>(6) + RawBytes(0xFFFFFFFF)))
          .ok());
  EXPECT_FALSE(ParseTorchArray(SpanOf(Swapped(4) + Swapped(0)))->has_value());
  EXPECT_FALSE(ParseTorchArray(SpanOf(Swapped(99) + Swapped(0)))->has_value());
}

}  // namespace
}  // namespace millrace::storage
