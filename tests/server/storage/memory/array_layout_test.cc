// The head of a file of arrays: what is found, and that no number in it is
// trusted.

#include "server/storage/memory/array_layout.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/storage/memory/array_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

Schema ImagesAndLabels() {
  Schema schema;
  AddTensor("image", DTYPE_UINT8, {2, 3, 1}, &schema);
  AddTensor("label", DTYPE_INT64, {}, &schema);
  return schema;
}

std::string File(const Schema& schema, uint64_t rows,
                 const std::vector<std::string>& arrays) {
  return ArrayFile(schema.SerializeAsString(), rows, arrays);
}

std::string Good() {
  return File(ImagesAndLabels(), 5,
              {std::string(5 * 6, 'i'), std::string(5 * 8, 'l')});
}

std::string Refusal(const std::string& file) {
  const auto layout = ParseArrayLayout(BytesOf(file));
  if (layout.ok()) return "it was parsed";
  EXPECT_EQ(layout.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(layout.status().message()),
              HasSubstr("client and the server of the same release"));
  return std::string(layout.status().message());
}

TEST(ArrayLayoutTest, ArraysAreOneBehindTheOther) {
  const std::string file = Good();
  const auto layout = ParseArrayLayout(BytesOf(file));
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->rows, 5);
  EXPECT_EQ(layout->schema.SerializeAsString(),
            ImagesAndLabels().SerializeAsString());
  ASSERT_EQ(layout->arrays.size(), 2u);
  const ArrayLayout::Array& image = layout->arrays[0];
  const ArrayLayout::Array& label = layout->arrays[1];
  EXPECT_EQ(image.row_bytes, 6u);
  EXPECT_EQ(label.row_bytes, 8u);
  EXPECT_EQ(file.substr(image.offset, 30), std::string(30, 'i'));
  EXPECT_EQ(file.substr(label.offset), std::string(40, 'l'));
}

TEST(ArrayLayoutTest, HeadsThatAreCutOrForeign) {
  EXPECT_THAT(Refusal(""), HasSubstr("MRARRAYS"));
  EXPECT_THAT(Refusal("MRARRAYS"), HasSubstr("MRARRAYS"));
  std::string file = Good();
  file[0] = 'X';
  EXPECT_THAT(Refusal(file), HasSubstr("MRARRAYS"));
  file = Good();
  file[8] = 2;
  EXPECT_THAT(Refusal(file), HasSubstr("version 2"));
  for (size_t bytes = 0; bytes < Good().size(); ++bytes) {
    EXPECT_NE(Refusal(Good().substr(0, bytes)), "it was parsed") << bytes;
  }
}

TEST(ArrayLayoutTest, SizesThatLie) {
  EXPECT_THAT(Refusal(Good() + "x"), HasSubstr("bytes instead of"));
  std::string file = Good();
  const uint32_t schema_bytes = 0xffffffff;
  std::memcpy(&file[12], &schema_bytes, sizeof(schema_bytes));
  EXPECT_THAT(Refusal(file), HasSubstr("a schema of 4294967295 bytes"));
  // With rows of 6 and 8 bytes, these products are small modulo 2^64.
  for (const uint64_t rows :
       {uint64_t{6}, uint64_t{1} << 63, uint64_t{1} << 62, uint64_t{1} << 61,
        ~uint64_t{0}, ~uint64_t{0} / 6 + 1}) {
    file = Good();
    std::memcpy(&file[16], &rows, sizeof(rows));
    EXPECT_THAT(Refusal(file), HasSubstr("too few for")) << rows;
  }
  EXPECT_THAT(Refusal(File(ImagesAndLabels(), 0, {"", ""})),
              HasSubstr("no rows"));
}

TEST(ArrayLayoutTest, SchemasThatAreNone) {
  EXPECT_THAT(Refusal(ArrayFile("\xff\xff\xff", 1, {"x"})),
              HasSubstr("cannot be parsed"));
  EXPECT_THAT(Refusal(File(Schema(), 1, {})), HasSubstr("no fields"));
  Schema schema = ImagesAndLabels();
  schema.mutable_fields(1)->set_name("image");
  EXPECT_THAT(Refusal(File(schema, 1, {"", ""})), HasSubstr("appears twice"));
  for (const FieldKind kind :
       {FIELD_KIND_ENCODED_IMAGE, FIELD_KIND_RAGGED, FIELD_KIND_UNSPECIFIED}) {
    schema = ImagesAndLabels();
    schema.mutable_fields(0)->set_kind(kind);
    EXPECT_THAT(Refusal(File(schema, 1, {"", ""})), HasSubstr("'image'"));
  }
  schema = ImagesAndLabels();
  schema.mutable_fields(0)->set_dtype(DTYPE_UNSPECIFIED);
  EXPECT_THAT(Refusal(File(schema, 1, {"", ""})),
              HasSubstr("no known element type"));
  for (const int64_t extent : {int64_t{0}, int64_t{-1}, int64_t{1} << 40}) {
    schema = ImagesAndLabels();
    schema.mutable_fields(0)->set_shape(0, extent);
    EXPECT_THAT(Refusal(File(schema, 1, {"", ""})), HasSubstr("a dimension of"))
        << extent;
  }
  schema.Clear();
  for (int i = 0; i < 1025; ++i) {
    AddTensor("a" + std::to_string(i), DTYPE_UINT8, {}, &schema);
  }
  EXPECT_THAT(Refusal(File(schema, 1, std::vector<std::string>(1025, "x"))),
              HasSubstr("the maximum is 1024"));
}

}  // namespace
}  // namespace millrace::storage
