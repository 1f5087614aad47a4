#include "server/storage/tfrecord/example_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "tests/server/storage/tfrecord/tfrecord_testing.h"

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<ExampleRule>> Infer(
    const std::string& payload, const FormatOptions& options = {}) {
  const auto parsed = ParseExampleOptions(options);
  if (!parsed.ok()) return parsed.status();
  return InferExampleRule(AsBytes(payload), *parsed);
}

// "NAME<FEATURE KIND DTYPE SHAPE", the class field with a "*".
std::string Describe(const ExampleRule& rule) {
  std::vector<std::string> fields;
  for (int i = 0; i < rule.schema().fields_size(); ++i) {
    const Field& field = rule.schema().fields(i);
    const char* kind = field.kind() == FIELD_KIND_ENCODED_IMAGE ? "image"
                       : field.kind() == FIELD_KIND_RAGGED      ? "ragged"
                                                                : "tensor";
    const char* type = field.dtype() == DTYPE_UINT8     ? " u8"
                       : field.dtype() == DTYPE_INT64   ? " i64"
                       : field.dtype() == DTYPE_FLOAT32 ? " f32"
                                                        : "";
    fields.push_back(absl::StrCat(field.name(), "<", rule.feature(i), " ", kind,
                                  type, " [", absl::StrJoin(field.shape(), ","),
                                  "]", rule.class_field() == i ? "*" : ""));
  }
  return absl::StrJoin(fields, "; ");
}

std::string Described(const std::string& payload,
                      const FormatOptions& options = {}) {
  const auto rule = Infer(payload, options);
  if (!rule.ok()) return rule.status().ToString();
  return Describe(**rule);
}

const std::string kJpeg(kJpegStart);

TEST(ExampleSchema, EveryFeatureBecomesAFieldInTheOrderOfTheNames) {
  EXPECT_EQ(Described(ExampleBytes({{"z", Ints({1})},
                                    {"a", Floats({1, 2, 3})},
                                    {"picture", Strings({kJpeg})},
                                    {"text", Strings({"a text"})},
                                    {"one", Floats({2})},
                                    {"m", Ints({1, 2})}})),
            "a<a tensor f32 [3]; m<m tensor i64 [2]; one<one tensor f32 []; "
            "picture<picture image []; text<text ragged u8 []; "
            "z<z tensor i64 []");
}

TEST(ExampleSchema, ImagesAreToldByTheirFirstBytes) {
  for (const std::string& image : {kJpeg, std::string("\x89PNG\r\n\x1A\n..."),
                                   std::string("RIFF1234WEBP")}) {
    EXPECT_EQ(Described(ExampleBytes({{"x", Strings({image})}})),
              "x<x image []");
  }
  EXPECT_EQ(Described(ExampleBytes({{"x", Strings({"GIF89a"})}})),
            "x<x ragged u8 []");
  EXPECT_EQ(Described(ExampleBytes({{"x", Strings({""})}})),
            "x<x ragged u8 []");
  EXPECT_EQ(
      Described(ExampleBytes({{"x", Strings({kJpeg})}}), {{"ragged", "x"}}),
      "x<x ragged u8 []");
}

TEST(ExampleSchema, AnIntegerNamedLabelIsAClassIndex) {
  const std::string record =
      ExampleBytes({{"image", Strings({kJpeg})}, {"label", Ints({3})}});
  EXPECT_EQ(Described(record),
            "image<image image []; label<label tensor i64 []*");
  EXPECT_EQ(Described(record, {{"fields", "label"}}),
            "label<label tensor i64 []*");
  EXPECT_EQ(Described(record, {{"preset", "none"}}),
            "image<image image []; label<label tensor i64 []");
  EXPECT_EQ(Described(ExampleBytes({{"label", Ints({1, 0})}})),
            "label<label tensor i64 [2]");
  EXPECT_EQ(Described(ExampleBytes({{"label", Floats({1})}})),
            "label<label tensor f32 []");
}

const NamedFeatures kImagenet = {
    {"image/encoded", Strings({kJpeg})},
    {"image/class/label", Ints({1})},
    {"image/object/bbox/xmin", Floats({})},
    {"image/filename", Strings({"n01440764_10026.JPEG"})},
};

TEST(ExampleSchema, ImagenetsFeaturesAreAPreset) {
  const std::string record = ExampleBytes(kImagenet);
  const auto rule = Infer(record);
  ASSERT_TRUE(rule.ok()) << rule.status();
  EXPECT_EQ(Describe(**rule),
            "image<image/encoded image []; "
            "label<image/class/label tensor i64 []*");
  EXPECT_EQ((*rule)->first_label(), 1);
  EXPECT_EQ(
      Described(record, {{"preset", "imagenet"}, {"fields", "image/filename"}}),
      "image<image/encoded image []; "
      "label<image/class/label tensor i64 []*; "
      "image/filename<image/filename ragged u8 []");
}

TEST(ExampleSchema, OptionsTurnThePresetOff) {
  const std::string record = ExampleBytes(kImagenet);
  EXPECT_EQ(Described(record, {{"fields", "image/class/label"}}),
            "image/class/label<image/class/label tensor i64 []");
  EXPECT_EQ(Described(record, {{"image", "image/encoded"}}),
            "image<image/encoded image []");
  EXPECT_EQ(Described(record, {{"preset", "none"},
                               {"ragged", "image/object/bbox/xmin"}}),
            "image/class/label<image/class/label tensor i64 []; "
            "image/encoded<image/encoded image []; "
            "image/filename<image/filename ragged u8 []; "
            "image/object/bbox/xmin<image/object/bbox/xmin ragged f32 []");
}

TEST(ExampleSchema, OptionsNameImageAndLabel) {
  const std::string record = ExampleBytes({{"jpeg", Strings({kJpeg})},
                                           {"gif", Strings({"GIF89a"})},
                                           {"class", Ints({4})},
                                           {"size", Ints({4, 5})}});
  EXPECT_EQ(Described(record, {{"image", "jpeg"}, {"label", "class"}}),
            "image<jpeg image []; label<class tensor i64 []*");
  const auto rule = Infer(record, {{"image", "jpeg"}, {"label", "class"}});
  EXPECT_EQ((*rule)->first_label(), 0);
  EXPECT_EQ(Described(record, {{"image", "jpeg"}, {"fields", "size,class"}}),
            "image<jpeg image []; size<size tensor i64 [2]; "
            "class<class tensor i64 []");
  // A decoder of --operators may know it.
  EXPECT_EQ(Described(record, {{"image", "gif"}}), "image<gif image []");
}

TEST(ExampleSchema, RaggedNumbersHaveAnyLength) {
  const std::string record =
      ExampleBytes({{"ids", Ints({})}, {"boxes", Floats({1, 2})}});
  EXPECT_EQ(Described(record, {{"ragged", "ids,boxes"}}),
            "boxes<boxes ragged f32 []; ids<ids ragged i64 []");
}

TEST(ExampleSchema, RefusalsNameFeatureAndWayOut) {
  const NamedFeatures odd = {
      {"good", Ints({1})},     {"texts", Strings({"a", "b", "c"})},
      {"texts0", Strings({})}, {"none", reference::Feature()},
      {"empty", Floats({})},   {"floats", Floats({1, 2})}};
  const std::string record = ExampleBytes(odd);
  const struct {
    FormatOptions options;
    const char* says;
  } cases[] = {
      {{}, "feature 'empty' has no values in the first record of the dataset"},
      {{},
       "add the option ragged=empty, or name the features that are fields, "
       "for example fields=floats,good"},
      {{{"fields", "texts"}},
       "feature 'texts' has 3 byte strings in the first record of the dataset, "
       "and a field has one: name the features that are fields, for example "
       "fields=floats,good"},
      {{{"fields", "texts0"}}, "feature 'texts0' has no values"},
      {{{"fields", "none"}}, "so its type is not known"},
      {{{"fields", "missing"}},
       "the first record of the dataset has no feature 'missing' that an "
       "option names; it has empty, floats, good, none, texts, texts0"},
      {{{"ragged", "missing"}}, "has no feature 'missing'"},
      {{{"label", "good"}, {"fields", "floats"}, {"ragged", "empty"}},
       "names feature 'empty', which is left out because other options choose "
       "the features: write fields=floats,empty, or leave"},
      {{{"image", "good"}},
       "feature 'good' has 1 integer in the first record "
       "of the dataset, and an image is one byte string"},
      {{{"image", "texts"}}, "an image is one byte string"},
      {{{"label", "floats"}}, "a label is one integer"},
      {{{"label", "good"}, {"fields", "good"}}, "name each feature and each"},
      {{{"preset", "imagenet"}}, "no feature 'image/encoded'"},
  };
  for (const auto& each : cases) {
    const absl::Status error = Infer(record, each.options).status();
    EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr(each.says));
  }
}

TEST(ExampleSchema, RefusesTwoFieldsOfOneName) {
  const std::string record =
      ExampleBytes({{"jpeg", Strings({kJpeg})}, {"image", Ints({1})}});
  EXPECT_THAT(Infer(record, {{"image", "jpeg"}, {"fields", "image"}})
                  .status()
                  .message(),
              HasSubstr("features 'jpeg' and 'image' of a tfrecord: dataset "
                        "become fields 'image' and 'image'"));
}

TEST(ExampleSchema, RefusesNamesThatAreNoText) {
  const std::string record =
      ExampleBytes({{"a\xFF", Ints({1})}, {"b", Ints({1})}});
  EXPECT_THAT(Infer(record).status().message(),
              HasSubstr("feature 'a\\377' has a name that is empty or no "
                        "UTF-8"));
  EXPECT_EQ(Described(record, {{"fields", "b"}}), "b<b tensor i64 []");
}

TEST(ExampleSchema, RefusesMoreFeaturesThanAnybodyWants) {
  NamedFeatures many;
  for (int i = 0; i <= kMaxExampleFields; ++i) {
    many.emplace_back(absl::StrCat("f", i), Ints({i}));
  }
  const absl::Status error = Infer(ExampleBytes(many)).status();
  EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("has 257 features, and at most 256"));
  EXPECT_EQ(Described(ExampleBytes(many), {{"fields", "f7"}}),
            "f7<f7 tensor i64 []");
}

TEST(ExampleSchema, RefusesOtherPayloads) {
  reference::SequenceExample sequence;
  (*sequence.mutable_context()->mutable_feature())["a"] = Ints({1});
  (*sequence.mutable_feature_lists()->mutable_feature_list())["b"];
  const struct {
    std::string payload;
    const char* says;
  } cases[] = {
      {sequence.SerializeAsString(), "is a tf.train.SequenceExample"},
      {kJpeg, "is no tf.train.Example"},
      {"", "is no tf.train.Example with features"},
      {"{\"json\": 1}", "is no tf.train.Example"},
  };
  for (const auto& each : cases) {
    const absl::Status error = Infer(each.payload).status();
    EXPECT_EQ(error.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(error.message(), HasSubstr("byte 0 of the first record: "));
    EXPECT_THAT(error.message(), HasSubstr(each.says));
    EXPECT_THAT(error.message(), HasSubstr("millrace-data pack"));
  }
}

}  // namespace
}  // namespace millrace::storage
