#include "server/storage/tfrecord/example_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "server/storage/tfrecord/example_schema.h"
#include "tests/server/storage/tfrecord/tfrecord_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kJpeg(kJpegStart);

std::unique_ptr<ExampleRule> RuleOf(const NamedFeatures& first,
                                    const FormatOptions& options = {}) {
  const auto parsed = ParseExampleOptions(options);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  auto rule = InferExampleRule(AsBytes(ExampleBytes(first)), *parsed);
  EXPECT_TRUE(rule.ok()) << rule.status();
  return *std::move(rule);
}

// The fields of a record, as bytes.
absl::StatusOr<std::vector<std::string>> Split(
    const ExampleRule& rule, const std::string& record,
    const std::vector<bool>& used = {}) {
  RecordFields fields(rule.schema().fields_size());
  fields.Clear();
  const absl::Status split = rule.Split(AsBytes(record), used, &fields);
  if (!split.ok()) return split;
  std::vector<std::string> texts;
  for (const auto& field : fields.all()) texts.push_back(AsText(field));
  return texts;
}

absl::StatusOr<std::vector<std::string>> Split(
    const ExampleRule& rule, const NamedFeatures& features,
    const std::vector<bool>& used = {}) {
  return Split(rule, ExtentOf(ExampleBytes(features)), used);
}

using Texts = std::vector<std::string>;

const NamedFeatures kEvery = {
    {"bytes", Strings({"abc"})},   {"float", Floats({1.5})},
    {"floats", Floats({1, 2, 3})}, {"image", Strings({kJpeg})},
    {"int", Ints({-7})},           {"ints", Ints({1, 300, -1})},
};

TEST(ExampleRule, SplitsARecordIntoFields) {
  const auto rule = RuleOf(kEvery);
  const auto fields = Split(*rule, kEvery);
  ASSERT_TRUE(fields.ok()) << fields.status();
  EXPECT_EQ(*fields,
            Texts({"abc", NumberText(1.5F),
                   NumberText(1.0F) + NumberText(2.0F) + NumberText(3.0F),
                   kJpeg, NumberText(int64_t{-7}),
                   NumberText(int64_t{1}) + NumberText(int64_t{300}) +
                       NumberText(int64_t{-1})}));
}

TEST(ExampleRule, ByteStringsAndFloatsAreViewsOfTheRecord) {
  const auto rule = RuleOf(kEvery);
  const std::string record = ExtentOf(ExampleBytes(kEvery));
  RecordFields fields(rule->schema().fields_size());
  ASSERT_TRUE(rule->Split(AsBytes(record), {}, &fields).ok());
  const auto inside = [&](absl::Span<const uint8_t> field) {
    return field.data() >= AsBytes(record).data() &&
           field.data() + field.size() <=
               AsBytes(record).data() + record.size();
  };
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(inside(fields.all()[i])) << i;
}

TEST(ExampleRule, RecordFieldsServeRecordAfterRecord) {
  const auto rule = RuleOf({{"ids", Ints({1, 2})}, {"label", Ints({1})}},
                           {{"ragged", "ids"}});
  RecordFields fields(2);
  for (const std::vector<int64_t>& ids :
       std::vector<std::vector<int64_t>>{{1, 2, 3, 4}, {}, {5}}) {
    fields.Clear();
    const std::string record =
        ExtentOf(ExampleBytes({{"ids", Ints(ids)}, {"label", Ints({2})}}));
    ASSERT_TRUE(rule->Split(AsBytes(record), {}, &fields).ok());
    EXPECT_EQ(fields.all()[0].size(), ids.size() * sizeof(int64_t));
    EXPECT_EQ(AsText(fields.all()[1]), NumberText(int64_t{2}));
  }
}

TEST(ExampleRule, RaggedFieldsMayBeEmptyOrWithoutAKind) {
  const auto rule = RuleOf({{"ids", Floats({1, 2})}}, {{"ragged", "ids"}});
  EXPECT_EQ(*Split(*rule, {{"ids", Floats({})}}), Texts({""}));
  EXPECT_EQ(*Split(*rule, {{"ids", reference::Feature()}}), Texts({""}));
  EXPECT_FALSE(Split(*rule, {{"ids", Ints({1})}}).ok());
}

TEST(ExampleRule, ImagenetsLabelsBeginAtOne) {
  const auto record = [](int64_t label) {
    return NamedFeatures{{"image/encoded", Strings({kJpeg})},
                         {"image/class/label", Ints({label})}};
  };
  const auto rule = RuleOf(record(1000));
  EXPECT_EQ(*Split(*rule, record(1000)),
            Texts({kJpeg, NumberText(int64_t{999})}));
  EXPECT_EQ(*Split(*rule, record(1)), Texts({kJpeg, NumberText(int64_t{0})}));
  for (const int64_t label : {int64_t{0}, INT64_MIN}) {
    const absl::Status error = Split(*rule, record(label)).status();
    EXPECT_EQ(error.code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(
        error.message(),
        absl::StrCat("field 'label' (feature 'image/class/label') is ", label,
                     ", and labels of preset=imagenet begin at 1: if "
                     "these begin at 0, write image=image/encoded&label="
                     "image/class/label in place of the preset"));
  }
}

// label_offset is the source's matter, and may make them class indices.
TEST(ExampleRule, OtherLabelsAreAsTheyAre) {
  const auto rule = RuleOf({{"label", Ints({1})}});
  for (const int64_t label : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    EXPECT_EQ(*Split(*rule, {{"label", Ints({label})}}),
              Texts({NumberText(label)}));
  }
}

TEST(ExampleRule, ChecksThePayload) {
  const auto rule = RuleOf({{"a", Ints({1})}});
  std::string record = ExtentOf(ExampleBytes({{"a", Ints({1})}}));
  record[3] ^= 1;
  const absl::Status error = Split(*rule, record).status();
  EXPECT_EQ(error.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(error.message()),
              StartsWith("the 14 bytes of the record do not match their "
                         "checksum"));
  EXPECT_FALSE(Split(*rule, std::string("abc")).ok());
}

TEST(ExampleRule, NamesFieldAndFeatureOfADifferentRecord) {
  const auto rule =
      RuleOf({{"jpeg", Strings({kJpeg})},
              {"box", Floats({1, 2, 3, 4})},
              {"class", Ints({1})}},
             {{"image", "jpeg"}, {"label", "class"}, {"fields", "box"}});
  const auto error_of = [&](const NamedFeatures& changes) {
    NamedFeatures features = {{"jpeg", Strings({kJpeg})},
                              {"box", Floats({1, 2, 3, 4})},
                              {"class", Ints({1})}};
    for (const auto& change : changes) features.push_back(change);
    const absl::Status error = Split(*rule, features).status();
    EXPECT_EQ(error.code(), absl::StatusCode::kDataLoss);
    return std::string(error.message());
  };
  EXPECT_EQ(error_of({{"box", Floats({1, 2})}}),
            "field 'box' has 2 floats in this record, and 4 floats in the "
            "first record of the dataset: add the option ragged=box if the "
            "number differs between records");
  EXPECT_THAT(error_of({{"box", Floats({})}}),
              StartsWith("field 'box' has no values in this record"));
  EXPECT_EQ(error_of({{"box", Ints({1, 2, 3, 4})}}),
            "field 'box' has 4 integers in this record, and 4 floats in the "
            "first record of the dataset: write all records with the same "
            "types, or leave the feature out (fields=)");
  EXPECT_THAT(error_of({{"jpeg", Strings({"a", "b"})}}),
              StartsWith("field 'image' (feature 'jpeg') has 2 byte strings"));
  EXPECT_THAT(error_of({{"class", Ints({1, 2})}}),
              HasSubstr("write one value in each record"));
  EXPECT_EQ(Split(*rule, {{"jpeg", Strings({kJpeg})}, {"class", Ints({1})}})
                .status()
                .message(),
            "field 'box' is missing: the record has no such feature, and the "
            "first record of the dataset has it; write it in all records, or "
            "leave it out (fields=)");
}

TEST(ExampleRule, FieldsThatAreNotUsedAreNotChecked) {
  const auto rule = RuleOf({{"a", Ints({1})}, {"b", Floats({1, 2})}});
  const auto fields =
      Split(*rule, {{"a", Ints({1})}, {"b", Floats({1})}}, {true, false});
  ASSERT_TRUE(fields.ok()) << fields.status();
  EXPECT_EQ(*fields, Texts({NumberText(int64_t{1}), ""}));
  EXPECT_TRUE(Split(*rule, {{"b", Floats({1, 2})}}, {false, true}).ok());
}

TEST(ExampleRule, NamesTheByteOfADamagedMessage) {
  const auto rule = RuleOf({{"a", Ints({1})}});
  const std::string payload = ExampleBytes({{"a", Ints({1})}});
  for (size_t bytes = 1; bytes < payload.size(); ++bytes) {
    const absl::Status error =
        Split(*rule, ExtentOf(payload.substr(0, bytes))).status();
    EXPECT_EQ(error.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(error.message()), StartsWith("byte "));
    EXPECT_THAT(std::string(error.message()),
                HasSubstr(" of the record: the record is no tf.train.Example"));
  }
}

TEST(ExampleRule, IsRestoredFromItsEncoding) {
  const NamedFeatures first = {
      {"jpeg", Strings({kJpeg})}, {"class", Ints({4})}, {"ids", Ints({1, 2})}};
  const auto rule = RuleOf(first, {{"image", "jpeg"},
                                   {"label", "class"},
                                   {"fields", "ids"},
                                   {"ragged", "ids"}});
  const std::string encoded = rule->Encode();
  const auto restored = ExampleRule::Restore(encoded);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ((*restored)->Encode(), encoded);
  EXPECT_EQ((*restored)->class_field(), 1);
  EXPECT_EQ(*Split(**restored, first), *Split(*rule, first));
  for (size_t bytes = 0; bytes < encoded.size(); ++bytes) {
    EXPECT_EQ(ExampleRule::Restore(encoded.substr(0, bytes)).status().code(),
              absl::StatusCode::kDataLoss)
        << bytes;
  }
  EXPECT_FALSE(ExampleRule::Restore(encoded + "x").ok());
  const NamedFeatures imagenet = {{"image/encoded", Strings({kJpeg})},
                                  {"image/class/label", Ints({7})}};
  EXPECT_EQ((*ExampleRule::Restore(RuleOf(imagenet)->Encode()))->first_label(),
            1);
  std::string newer = encoded;
  newer[0] = 2;
  EXPECT_FALSE(ExampleRule::Restore(newer).ok());
}

TEST(ExampleRule, RefusesSchemasOfOtherFields) {
  const auto refused = [](FieldKind kind, DType type,
                          std::vector<int64_t> shape, int class_field) {
    Schema schema;
    Field& field = *schema.add_fields();
    field.set_name("f");
    field.set_kind(kind);
    field.set_dtype(type);
    for (int64_t extent : shape) field.add_shape(extent);
    return !ExampleRule::Create(schema, {"f"}, class_field, 0).ok();
  };
  EXPECT_FALSE(refused(FIELD_KIND_TENSOR, DTYPE_INT64, {}, 0));
  EXPECT_FALSE(refused(FIELD_KIND_TENSOR, DTYPE_INT64, {3}, -1));
  EXPECT_TRUE(refused(FIELD_KIND_TENSOR, DTYPE_INT64, {3}, 0));
  EXPECT_TRUE(refused(FIELD_KIND_TENSOR, DTYPE_INT32, {}, -1));
  EXPECT_TRUE(refused(FIELD_KIND_TENSOR, DTYPE_INT64, {3, 3}, -1));
  EXPECT_TRUE(refused(FIELD_KIND_TENSOR, DTYPE_FLOAT32, {}, 0));
  EXPECT_TRUE(refused(FIELD_KIND_RAGGED, DTYPE_INT32, {}, -1));
  EXPECT_TRUE(refused(FIELD_KIND_RAGGED, DTYPE_INT64, {}, 0));
  EXPECT_TRUE(refused(FIELD_KIND_TENSOR, DTYPE_INT64, {}, 1));
}

}  // namespace
}  // namespace millrace::storage
