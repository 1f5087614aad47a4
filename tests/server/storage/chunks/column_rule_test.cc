#include "server/storage/chunks/column_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/storage/chunks/chunk_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

Field FieldOf(const std::string& name, FieldKind kind, DType dtype,
              std::vector<int64_t> shape = {}) {
  Field field;
  field.set_name(name);
  field.set_kind(kind);
  field.set_dtype(dtype);
  for (const int64_t extent : shape) field.add_shape(extent);
  return field;
}

// Columns id (uint16), photo, grid (header "h", 2 float32), tags; the fields
// have another order.
std::unique_ptr<ColumnRule> Example() {
  Schema schema;
  *schema.add_fields() =
      FieldOf("image", FIELD_KIND_ENCODED_IMAGE, DTYPE_UNSPECIFIED);
  *schema.add_fields() = FieldOf("label", FIELD_KIND_TENSOR, DTYPE_INT64);
  *schema.add_fields() = FieldOf("grid", FIELD_KIND_TENSOR, DTYPE_FLOAT32, {2});
  *schema.add_fields() = FieldOf("tags", FIELD_KIND_RAGGED, DTYPE_INT32);
  auto rule = ColumnRule::Create(schema,
                                 {{"id", 2, StoredType::kUint16, "", 1},
                                  {"photo", 0, StoredType::kBytes, "", 0},
                                  {"grid", 9, StoredType::kFloat32, "h", 2},
                                  {"tags", 0, StoredType::kInt32, "", 3}},
                                 1);
  EXPECT_TRUE(rule.ok()) << rule.status();
  return std::move(*rule);
}

std::string ExampleRecord() {
  return RawBytes<uint32_t>(3) + RawBytes<uint32_t>(8) +
         RawBytes<uint16_t>(40000) + "JPG" + "h" + RawBytes(1.5f) +
         RawBytes(2.5f) + RawBytes<int32_t>(7) + RawBytes<int32_t>(8);
}

absl::Status SplitStatus(const std::string& record,
                         const std::vector<bool>& used = {}) {
  RecordFields fields(4);
  return Example()->Split(SpanOf(record), used, &fields);
}

TEST(ColumnRuleTest, SplitsAndConverts) {
  const auto rule = Example();
  EXPECT_EQ(rule->class_field(), 1);
  const std::string record = ExampleRecord();
  RecordFields fields(4);
  // Twice: memory of the first record is used again.
  for (int i = 0; i < 2; ++i) {
    fields.Clear();
    ASSERT_TRUE(rule->Split(SpanOf(record), {}, &fields).ok());
    EXPECT_EQ(TextOf(fields.all()[0]), "JPG");
    EXPECT_EQ(NumberOf<int64_t>(fields.all()[1]), 40000);
    EXPECT_EQ(TextOf(fields.all()[2]), RawBytes(1.5f) + RawBytes(2.5f));
    EXPECT_EQ(TextOf(fields.all()[3]),
              RawBytes<int32_t>(7) + RawBytes<int32_t>(8));
  }
  // Bytes that need no conversion are not copied.
  EXPECT_EQ(reinterpret_cast<const char*>(fields.all()[0].data()),
            record.data() + 10);
}

TEST(ColumnRuleTest, FieldsThatAreNotUsedAreNotChecked) {
  std::string record = ExampleRecord();
  record[13] = 'x';  // the header of grid
  EXPECT_TRUE(absl::IsDataLoss(SplitStatus(record)));
  EXPECT_THAT(SplitStatus(record).message(),
              AllOf(Begins("field 'grid': "), HasSubstr("ragged=grid")));
  EXPECT_TRUE(SplitStatus(record, {true, true, false, true}).ok());
  RecordFields fields(4);
  ASSERT_TRUE(Example()
                  ->Split(SpanOf(record), {true, false, false, false}, &fields)
                  .ok());
  EXPECT_EQ(TextOf(fields.all()[0]), "JPG");
  EXPECT_TRUE(fields.all()[1].empty());
}

TEST(ColumnRuleTest, RecordsOfWrongSizesAreDamaged) {
  const std::string record = ExampleRecord();
  for (size_t bytes = 0; bytes < record.size(); ++bytes) {
    EXPECT_TRUE(absl::IsDataLoss(SplitStatus(record.substr(0, bytes))))
        << bytes;
  }
  EXPECT_THAT(SplitStatus(record.substr(0, 7)).message(),
              "byte 0 of the record: the sizes of 2 columns take 8 bytes, and "
              "the record has 7");
  EXPECT_THAT(
      SplitStatus(record + "x").message(),
      HasSubstr("byte 30 of the record: 1 bytes follow the last column"));
  std::string large = record;
  large.replace(0, 4, RawBytes(0xFFFFFFFF));
  EXPECT_THAT(SplitStatus(large).message(),
              "field 'image': its value has 4294967295 bytes from byte 10 of "
              "the record on, and the record has 30 bytes");
  std::string odd = record + "x";
  odd.replace(4, 4, RawBytes<uint32_t>(9));
  EXPECT_THAT(SplitStatus(odd).message(),
              HasSubstr("field 'tags': the value has 9 bytes, which is no "
                        "multiple of the 4 of an element"));
}

TEST(ColumnRuleTest, ATensorWithItsSizeInTheRecordHasTheSizeOfItsShape) {
  Schema schema;
  *schema.add_fields() = FieldOf("x", FIELD_KIND_TENSOR, DTYPE_INT64);
  *schema.add_fields() = FieldOf("b", FIELD_KIND_TENSOR, DTYPE_BOOL, {2});
  const auto rule = ColumnRule::Create(
      schema,
      {{"x", 0, StoredType::kInt64, "", 0}, {"b", 0, StoredType::kBool, "", 1}},
      -1);
  ASSERT_TRUE(rule.ok()) << rule.status();
  RecordFields fields(2);
  EXPECT_TRUE((*rule)
                  ->Split(SpanOf(SizedRecord(
                              {RawBytes<int64_t>(1), std::string("\1\0", 2)})),
                          {}, &fields)
                  .ok());
  EXPECT_THAT((*rule)
                  ->Split(SpanOf(SizedRecord({"1234", "\1\1"})), {}, &fields)
                  .message(),
              "field 'x': the value has 4 bytes, not the 8 of its type and "
              "shape");
  EXPECT_THAT((*rule)
                  ->Split(SpanOf(SizedRecord({RawBytes<int64_t>(1), "\1\2"})),
                          {}, &fields)
                  .message(),
              "field 'b': the value 2 is no bool, which is 0 or 1");
}

TEST(ColumnRuleTest, ComesBackFromItsEncoding) {
  const auto rule = Example();
  const auto same = ColumnRule::Restore(rule->Encode());
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ((*same)->Encode(), rule->Encode());
  EXPECT_EQ((*same)->class_field(), 1);
  EXPECT_EQ((*same)->schema().SerializeAsString(),
            rule->schema().SerializeAsString());
  RecordFields fields(4);
  ASSERT_TRUE((*same)->Split(SpanOf(ExampleRecord()), {}, &fields).ok());
  EXPECT_EQ(NumberOf<int64_t>(fields.all()[1]), 40000);
}

TEST(ColumnRuleTest, ADamagedEncodingIsRefused) {
  const std::string encoded = Example()->Encode();
  for (size_t bytes = 0; bytes < encoded.size(); ++bytes) {
    EXPECT_TRUE(absl::IsDataLoss(
        ColumnRule::Restore(encoded.substr(0, bytes)).status()))
        << bytes;
  }
  EXPECT_TRUE(absl::IsDataLoss(ColumnRule::Restore(encoded + "x").status()));
  std::string other_version = encoded;
  other_version[0] = 9;
  EXPECT_THAT(ColumnRule::Restore(other_version).status().message(),
              HasSubstr("another version"));
}

TEST(ColumnRuleTest, ColumnsAndFieldsMustFit) {
  Schema schema;
  *schema.add_fields() = FieldOf("x", FIELD_KIND_TENSOR, DTYPE_FLOAT32, {2});
  const auto create = [&](const ChunkColumn& column, int class_field = -1) {
    return ColumnRule::Create(schema, {column}, class_field).status();
  };
  EXPECT_TRUE(create({"x", 8, StoredType::kFloat32, "", 0}).ok());
  EXPECT_TRUE(create({"x", 0, StoredType::kFloat32, "", 0}).ok());
  EXPECT_FALSE(create({"x", 4, StoredType::kFloat32, "", 0}).ok());
  EXPECT_FALSE(create({"x", 8, StoredType::kFloat32, "h", 0}).ok());
  EXPECT_FALSE(create({"x", 0, StoredType::kInt32, "", 0}).ok());
  EXPECT_FALSE(create({"x", 0, StoredType::kBytes, "", 0}).ok());
  EXPECT_FALSE(create({"x", 0, StoredType::kFloatText, "", 0}).ok());
  EXPECT_FALSE(create({"x", 8, StoredType::kFloat32, "", 1}).ok());
  EXPECT_FALSE(create({"x", 8, StoredType::kFloat32, "", 0}, 0).ok());
  EXPECT_FALSE(ColumnRule::Create(schema, {}, -1).ok());
}

}  // namespace
}  // namespace millrace::storage
