#include "server/storage/columns/features_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/storage/storage_testing.h"

namespace millrace::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(FeaturesJsonTest, ImagesAndClassesAsDatasetsWritesThem) {
  EXPECT_EQ(FeaturesJson(ImageDataset(1).schema()),
            R"({"info": {"features": {"image": {"_type": "Image"}, )"
            R"("label": {"names": ["cat", "dog", "eel \"x\""], )"
            R"("_type": "ClassLabel"}}}})");
}

TEST(FeaturesJsonTest, EveryKindIsWritten) {
  const std::string json = FeaturesJson(EveryKindDataset(1).schema());
  for (
      const char* part :
      {R"("text": {"dtype": "binary", "_type": "Value"})",
       R"("flag": {"dtype": "bool", "_type": "Value"})",
       R"("f16": {"dtype": "float16", "_type": "Value"})",
       R"("raw": {"feature": {"dtype": "uint8", "_type": "Value"}, "length": 12, "_type": "Sequence"})",
       R"("class": {"names": ["0", "1", "2", "3", "4", "5", "6"], "_type": "ClassLabel"})"}) {
    EXPECT_THAT(json, ::testing::HasSubstr(part));
  }
  EXPECT_TRUE(ParseClassLabels(json).ok());
}

TEST(FeaturesJsonTest, LabelsComeBack) {
  const auto labels = ParseClassLabels(FeaturesJson(ImageDataset(1).schema()));
  ASSERT_TRUE(labels.ok()) << labels.status();
  ASSERT_EQ(labels->size(), 1);
  EXPECT_EQ(labels->at("label").num_classes, 3);
  EXPECT_THAT(labels->at("label").names,
              ElementsAre("cat", "dog", "eel \"x\""));
}

TEST(FeaturesJsonTest, ACountWithoutNamesIsEnough) {
  const auto labels = ParseClassLabels(
      R"({"info":{"features":{"y":{"num_classes":10,"_type":"ClassLabel"},)"
      R"("z":{"_type":"ClassLabel"},"x":{"dtype":"int64","_type":"Value"}}}})");
  ASSERT_TRUE(labels.ok());
  ASSERT_EQ(labels->size(), 1);
  EXPECT_EQ(labels->at("y").num_classes, 10);
  EXPECT_THAT(labels->at("y").names, IsEmpty());
}

TEST(FeaturesJsonTest, OtherJsonHasNoLabelsAndNoJsonIsAnError) {
  for (const char* json :
       {"{}", R"({"info": 3})", R"({"info": {"features": []}})",
        R"({"info": {"features": {"a": [1, {}], "b": null}}})"}) {
    const auto labels = ParseClassLabels(json);
    ASSERT_TRUE(labels.ok()) << json;
    EXPECT_THAT(*labels, IsEmpty()) << json;
  }
  for (const char* text : {"", "{", "image", "[]"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseClassLabels(text).status()))
        << text;
  }
}

// dataset_info.json has the features at the top.
TEST(FeaturesJsonTest, DatasetInfoHasTheFeaturesAtTheTop) {
  const auto labels = ParseClassLabels(
      R"({"description": "", "features": {"y": {"names": ["a", "b"],
          "_type": "ClassLabel"}}, "splits": {}})");
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_THAT(labels->at("y").names, ElementsAre("a", "b"));
}

TEST(FeaturesJsonTest, ShapesOfArraysAndMedia) {
  const auto found = ParseColumnFeatures(
      R"({"info": {"features": {
          "grid": {"shape": [2, 3], "dtype": "int32", "_type": "Array2D"},
          "open": {"shape": [null, -1, 0, 1e300], "_type": "Array4D"},
          "no": {"shape": [2], "_type": "Value"},
          "sound": {"sampling_rate": 16000, "_type": "Audio"},
          "image": {"_type": "Image"}}}})");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->arrays.at("grid"), ElementsAre(2, 3));
  EXPECT_THAT(found->arrays.at("open"), ElementsAre(-1, -1, -1, -1));
  EXPECT_EQ(found->arrays.size(), 2);
  EXPECT_THAT(found->media, ElementsAre("sound"));
  EXPECT_FALSE(ParseColumnFeatures("{").ok());
  EXPECT_THAT(ParseColumnFeatures("{}")->arrays, IsEmpty());
}

}  // namespace
}  // namespace millrace::storage
