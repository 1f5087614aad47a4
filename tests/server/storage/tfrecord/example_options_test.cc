#include "server/storage/tfrecord/example_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::storage {
namespace {

using ::testing::HasSubstr;

TEST(ExampleOptions, NoneAreGiven) {
  const auto options = ParseExampleOptions({});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->image, "");
  EXPECT_EQ(options->preset, ExamplePreset::kAutomatic);
}

TEST(ExampleOptions, AreParsed) {
  const auto options = ParseExampleOptions({{"image", "jpeg"},
                                            {"label", "class/id"},
                                            {"fields", "height,width"},
                                            {"ragged", "boxes"},
                                            {"preset", "none"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->image, "jpeg");
  EXPECT_EQ(options->label, "class/id");
  EXPECT_EQ(options->fields, std::vector<std::string>({"height", "width"}));
  EXPECT_EQ(options->ragged, std::vector<std::string>({"boxes"}));
  EXPECT_EQ(options->preset, ExamplePreset::kNone);
}

TEST(ExampleOptions, BadOnesAreRefusedByName) {
  const struct {
    FormatOptions options;
    const char* says;
  } cases[] = {
      {{{"lable", "x"}}, "tfrecord: has no option 'lable'"},
      {{{"image", ""}}, "option image= of a tfrecord: dataset: write the name"},
      {{{"label", ""}}, "option label="},
      {{{"fields", "a,,b"}}, "option fields=a,,b"},
      {{{"fields", "a,b,a"}}, "'a' is named twice"},
      {{{"ragged", ""}}, "option ragged="},
      {{{"preset", "coco"}}, "write imagenet or none"},
      {{{"preset", "imagenet"}, {"label", "x"}},
       "preset=imagenet names the features of image and label"},
  };
  for (const auto& each : cases) {
    const auto options = ParseExampleOptions(each.options);
    EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(options.status().message(), HasSubstr(each.says));
  }
}

}  // namespace
}  // namespace millrace::storage
