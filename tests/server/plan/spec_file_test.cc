#include "server/plan/spec_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"

namespace millrace::plan {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

std::string Lines(const std::vector<SpecMistake>& mistakes) {
  return absl::StrJoin(mistakes, ",", [](std::string* out, const auto& m) {
    absl::StrAppend(out, m.line);
  });
}

TEST(SpecFile, AGoodFileHasNoMistakes) {
  EXPECT_EQ(Lines(CheckSpecText(R"(# my pipeline
preset: "imagenet_train"
batch_size: 64
)")),
            "");
}

TEST(SpecFile, SyntheticSourcesNeedNoDatasetOfAProgram) {
  const std::string good = R"(sources {
  synthetic {
    samples: 1000
    fields { name: "image" dtype: DTYPE_UINT8 shape: [28, 28] }
  }
}
)";
  EXPECT_EQ(Lines(CheckSpecText(good)), "");
  const auto mistakes = CheckSpecText(good + "transforms {}\n" + R"(sources {
  synthetic { samples: 1 }
}
)");
  // The mixture, the transform, the second source's fields.
  ASSERT_FALSE(mistakes.empty());
  EXPECT_THAT(mistakes[0].message, HasSubstr("must be the only source"));
}

TEST(SpecFile, MistakesOfFormCarryTheirLine) {
  const auto mistakes = CheckSpecText("batch_size: 4\nbatch_sise: 5\n");
  ASSERT_EQ(Lines(mistakes), "2");
  EXPECT_THAT(mistakes[0].message, HasSubstr("batch_sise"));
  EXPECT_EQ(Lines(CheckSpecText("batch_size: 4\n\ntransforms {")), "3");
  EXPECT_EQ(Lines(CheckSpecText("last_batch: LAST_BATCH_MAYBE")), "1");
  EXPECT_EQ(Lines(CheckSpecText("batch_size: -4")), "1");
  // What could not be sent to a server.
  const auto no_utf8 = CheckSpecText("seed: 1\nsources { dataset: '\\xff' }");
  EXPECT_EQ(Lines(no_utf8), "2");
  EXPECT_THAT(no_utf8.at(0).message, HasSubstr("dataset is not UTF-8"));
}

TEST(SpecFile, AWrongEnumValueNamesTheValidOnes) {
  const auto only = [](const std::string& text) {
    const auto mistakes = CheckSpecText(text);
    return mistakes.size() == 1 ? mistakes[0].message : Lines(mistakes);
  };
  const std::string values =
      "; the valid values are INTERPOLATION_BILINEAR, INTERPOLATION_NEAREST";
  EXPECT_THAT(
      only("transforms { resize { short_side: 8 interpolation: BILINEAAR } }"),
      AllOf(HasSubstr("\"BILINEAAR\" for field \"interpolation\""),
            EndsWith(values + "; did you mean INTERPOLATION_BILINEAR?")));
  EXPECT_THAT(only("transforms: [{ resize { short_side: 8 interpolation: "
                   "INTERPOLATION_NEARST } }]"),
              EndsWith(values + "; did you mean INTERPOLATION_NEAREST?"));
  EXPECT_THAT(
      only("transforms { resize { short_side: 8 interpolation: 'nearest' } }"),
      HasSubstr(values));
  // Several messages have a field of this name.
  EXPECT_THAT(only("shuffle { mode: RANDOMLY }"), HasSubstr("SEQUENTIAL"));
  EXPECT_THAT(only("transforms { decode_image { mode: ROUGH } }"),
              HasSubstr("; the valid values are SCALED, EXACT"));
}

TEST(SpecFile, EveryMistakeOfFormIsFound) {
  const auto mistakes = CheckSpecText(R"(
# The first mistake does not hide the others.
batch_sise: 4
sources { dataset: "a" subset { form: 0.5 } }
last_batch: LAST_BATCH_MAYBE  # an enum is told behind its value
seed: many
transforms { horizontal_flop { p: 1 } }
transforms {
	random_resized_crop {
    heigth: 224
    width: 224 no_antialias: perhaps
    scale_min: "half"
  }
}
outputs { field: 'x'
)");
  EXPECT_EQ(Lines(mistakes), "3,4,5,6,7,10,11,12,16");
  EXPECT_THAT(mistakes[2].message, HasSubstr("LAST_BATCH_MAYBE"));
  EXPECT_EQ(mistakes[2].column, 1);
  EXPECT_THAT(mistakes[5].message, HasSubstr("heigth"));
  EXPECT_THAT(mistakes[6].message, HasSubstr("perhaps"));
  EXPECT_EQ(mistakes[6].column, 16);
  // A value that is missing does not take the next name for one.
  EXPECT_EQ(Lines(CheckSpecText("seed:\nbatch_size: x\nbatch_sise: 3")),
            "2,2,3");
  // Stray characters, and a bound on what is listed.
  EXPECT_EQ(Lines(CheckSpecText("seed: 1 }\n$ batch_sise: 3")), "1,2,2");
  std::string many;
  for (int i = 0; i < 100; ++i) many += "no_such: 1\n";
  const auto bounded = CheckSpecText(many);
  ASSERT_EQ(bounded.size(), kMaxFormMistakes + 1);
  EXPECT_EQ(bounded[0].line, 1);
  EXPECT_THAT(bounded.back().message, HasSubstr("the file has more mistakes"));
}

TEST(SpecFile, AnEmptyFileIsAMistake) {
  for (const char* text : {"", "\n  \n", "# nothing\n"}) {
    const auto mistakes = CheckSpecText(text);
    ASSERT_EQ(mistakes.size(), 1u) << text;
    EXPECT_THAT(mistakes[0].message, HasSubstr("the file is empty"));
    EXPECT_FALSE(ParseSpecText(text, "f").ok());
  }
  EXPECT_TRUE(CheckSpecText("seed: 0").empty());
}

// What would be refused by every server, whatever the dataset.
TEST(SpecFile, ImagesWithoutASizeAreFoundWithoutADataset) {
  const auto mistakes = CheckSpecText(
      "seed: 1\ntransforms { decode_image { field: 'photo' } }\n");
  ASSERT_EQ(Lines(mistakes), "2");
  EXPECT_THAT(
      mistakes[0].message,
      HasSubstr("transforms[0].decode_image: field photo has images of "
                "different sizes: add a transform that makes the sizes equal"));
  EXPECT_EQ(
      Lines(CheckSpecText("transforms { decode_image { field: 'photo' } }\n"
                          "outputs { field: 'label' }")),
      "");
}

TEST(SpecFile, AllMistakesOfMeaningCarryTheirLines) {
  const auto mistakes = CheckSpecText(R"(batch_size: 0
transforms { decode_image { } }
transforms {
  random_resized_crop {
    height: 224
    width: 100000
    scale_min: 2
    scale_max: 1
  }
}
transforms {
  horizontal_flip {
    p: 2
  }
}
transforms {
  normalize {
    mean: [0.5, 0.5, 0.5]
    stddev: [1,
      0, 1
    ]
  }
}
sources {
  dataset: "a"
  subset { from: 0.9 to: 0.1 }
}
shuffle { block_size: 3 }
outputs { field: "image" name: "valid" }
)");
  EXPECT_EQ(Lines(mistakes), "1,6,8,13,19,26,28,29");
  for (const SpecMistake& mistake : mistakes) {
    EXPECT_GT(mistake.column, 0) << mistake.message;
  }
  EXPECT_THAT(mistakes[1].message,
              HasSubstr("transforms[1].random_resized_crop.width"));
}

TEST(SpecFile, TransformsAndRolesCarryTheirLines) {
  const auto mistakes = CheckSpecText(R"(
field_roles {
  field: "mask"
  role: MASK
  of: "mask"
}
transforms { decode_image { } }
transforms {
  random_crop {
    height: 8
    width: 8
    padding: [1, 2, 3]
    fill: [1, 2,
      300]
  }
}
transforms {
  color_jitter {
    hue_min: -0.7
    hue_max: 0.7
  }
}
transforms { normalize { mean: 0 stddev: 1 } }
transforms {
  random_erasing {
    p: 7
  }
}
transforms { rand_augment { fields: "x" magnitude: 31 } }
)");
  // Counts and levels stand where their list begins.
  EXPECT_EQ(Lines(mistakes), "5,12,13,19,25,26,29");
  EXPECT_THAT(mistakes[5].message,
              HasSubstr("transforms[4].random_erasing.p: p is 7"));
  EXPECT_THAT(mistakes[4].message, HasSubstr("nothing may come after"));
}

TEST(SpecFile, WhatIsLeftOutPointsAtItsMessage) {
  const auto mistakes = CheckSpecText(R"(
transforms { decode_image {} }
transforms {
  center_crop { height: 3 }
}
)");
  ASSERT_EQ(Lines(mistakes), "4");
  EXPECT_THAT(mistakes[0].message, HasSubstr("width is 0"));
}

TEST(SpecFile, AnUnknownPresetNamesTheKnownOnes) {
  const auto mistakes = CheckSpecText("\npreset: 'imagnet'");
  ASSERT_EQ(Lines(mistakes), "2");
  EXPECT_THAT(mistakes[0].message, HasSubstr("imagenet_train"));
}

TEST(SpecFile, ParsingForProgramsSaysFileLineAndColumn) {
  const auto spec = ParseSpecText("\nbatch_sise: 5", "my.textproto");
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(spec.status().message()),
              HasSubstr("my.textproto:2:"));
  EXPECT_TRUE(ParseSpecText("batch_size: 5", "f").ok());
  EXPECT_FALSE(ParseSpecText(std::string(2 << 20, '#'), "f").ok());
  EXPECT_FALSE(
      ParseSpecText(std::string("\x89PNG\r\n\x1a\n\0\0", 10), "f").ok());
}

}  // namespace
}  // namespace millrace::plan
