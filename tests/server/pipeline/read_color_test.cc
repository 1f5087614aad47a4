#include "server/pipeline/read_color.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "server/augment/color_jitter.h"
#include "server/augment/gaussian_blur.h"
#include "server/augment/grayscale.h"
#include "server/augment/random_erasing.h"
#include "tests/server/pipeline/pixel_op_fixture.h"

namespace millrace {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr int kSamples = 12;

TEST(ReadColor, MakesTheOperationThatTheSpecAsksFor) {
  struct Case {
    std::string text;
    std::unique_ptr<const PixelOp> op;  // with the same meaning
    int channels = 3;
  };
  std::vector<Case> cases;
  ColorJitterOptions jitter;
  jitter.place = 5;
  jitter.brightness = {{0.8, 1.2}};
  jitter.hue = {{-0.1, 0.1}};
  cases.push_back(
      {"color_jitter { brightness_min: 0.8 brightness_max: 1.2 "
       "hue_min: -0.1 hue_max: 0.1 }",
       MakeColorJitter(jitter)});
  jitter.p = 0.5;
  jitter.contrast = {{0, 2}};
  jitter.saturation = {{3, 3}};
  cases.push_back(
      {"color_jitter { brightness_min: 0.8 brightness_max: 1.2 "
       "contrast_max: 2 saturation_min: 3 saturation_max: 3 "
       "hue_min: -0.1 hue_max: 0.1 p: 0.5 }",
       MakeColorJitter(jitter)});
  cases.push_back({"grayscale {}", MakeGrayscale({.place = 5})});
  cases.push_back(
      {"grayscale { p: 0.3 }", MakeGrayscale({.place = 5, .p = 0.3})});
  cases.push_back({"gaussian_blur { kernel_size: 7 }",
                   MakeGaussianBlur({.place = 5, .kernel_size = 7})});
  cases.push_back(
      {"gaussian_blur { kernel_size: 7 sigma_min: 1 sigma_max: 1 p: 0.6 }",
       MakeGaussianBlur({.place = 5,
                         .p = 0.6,
                         .kernel_size = 7,
                         .sigma_min = 1,
                         .sigma_max = 1}),
       2});
  cases.push_back({"random_erasing {}", MakeRandomErasing({.place = 5})});
  cases.push_back(
      {"random_erasing { p: 1 scale_min: 0.1 scale_max: 0.2 "
       "ratio_min: 1 ratio_max: 2 value: 3 value: 4 value: 5 }",
       MakeRandomErasing({.place = 5,
                          .p = 1,
                          .scale_min = 0.1,
                          .scale_max = 0.2,
                          .ratio_min = 1,
                          .ratio_max = 2,
                          .value = {3, 4, 5}})});
  cases.push_back({"random_erasing { random_value: true }",
                   MakeRandomErasing({.place = 5, .random_value = true}), 1});
  for (const Case& c : cases) {
    const Transform transform = ParseTransform(c.text);
    ASSERT_TRUE(IsColor(transform));
    const auto op = ReadColor({&transform, 5}, c.channels);
    ASSERT_TRUE(op.ok()) << op.status();
    EXPECT_EQ(ResultsOf(**op, c.channels, kSamples),
              ResultsOf(*c.op, c.channels, kSamples))
        << c.text;
  }
}

// The stage gives each transform the sample's key and its place in the spec,
// whichever thread runs it and whatever stands before.
TEST(ReadColor, RunsInsideAStageAsItDoesAlone) {
  const std::vector<std::string> geometry = {
      "random_resized_crop { height: 40 width: 52 }", "horizontal_flip {}"};
  const std::vector<std::string> colour = {
      "color_jitter { brightness_min: 0.7 brightness_max: 1.3 contrast_min: "
      "0.5 "
      "contrast_max: 1.5 saturation_max: 2 hue_min: -0.2 hue_max: 0.2 p: 0.8 }",
      "grayscale { p: 0.3 }", "gaussian_blur { kernel_size: 5 }",
      "random_erasing { random_value: true }"};
  Field field;
  field.set_name("image");
  field.set_kind(FIELD_KIND_TENSOR);
  field.set_dtype(DTYPE_UINT8);
  for (int64_t side : {61, 47, 3}) field.add_shape(side);
  Bytes stored(61 * 47 * 3);
  for (size_t i = 0; i < stored.size(); ++i) {
    stored[i] = static_cast<uint8_t>(i * i / 97 + 31 * (i % 3));
  }
  std::vector<Transform> transforms;
  for (const auto* texts : {&geometry, &colour}) {
    for (const std::string& text : *texts)
      transforms.push_back(ParseTransform(text));
  }
  std::vector<PlacedTransform> placed;
  for (const Transform& t : transforms) {
    placed.push_back({&t, static_cast<uint32_t>(placed.size())});
  }
  const auto whole = ImageStage::Create(field, placed);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto cropped =
      ImageStage::Create(field, absl::MakeSpan(placed).subspan(0, 2));
  ASSERT_TRUE(cropped.ok()) << cropped.status();

  constexpr uint64_t kSamples = 24;
  auto run = [&](const ImageStage& stage, ImageStage::Scratch& scratch,
                 uint64_t key) {
    Bytes out(40 * 52 * 3);
    const absl::Status status =
        stage.Run(stored, key, scratch, absl::MakeSpan(out));
    EXPECT_TRUE(status.ok()) << status;
    return out;
  };
  std::vector<Bytes> want;
  const auto scratch = (*cropped)->NewScratch();
  for (uint64_t key = 0; key < kSamples; ++key) {
    Bytes pixels = run(**cropped, *scratch, key);
    for (size_t k = geometry.size(); k < placed.size(); ++k) {
      const auto op = ReadColor(placed[k], 3);
      ASSERT_TRUE(op.ok()) << op.status();
      AlignedBuffer buffer;
      ASSERT_TRUE((*op)
                      ->Apply({pixels.data(), 40, 52, 3, 52 * 3},
                              {key, &buffer, nullptr})
                      .ok());
    }
    want.push_back(pixels);
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      const auto own = (*whole)->NewScratch();
      for (uint64_t key = 0; key < kSamples; ++key) {
        EXPECT_EQ(run(**whole, *own, key), want[key]) << key;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ReadColor, RefusesWhatIsOutOfRange) {
  struct Case {
    std::string text;
    int channels;
    std::string says;
  };
  const std::vector<Case> cases = {
      {"color_jitter { brightness_min: -0.1 brightness_max: 1 }", 3,
       "brightness is -0.1 to 1"},
      {"color_jitter { contrast_min: 2 contrast_max: 1 }", 3,
       "contrast is 2 to 1"},
      {"color_jitter { saturation_max: inf }", 3, "saturation is 0 to inf"},
      {"color_jitter { hue_min: -0.6 }", 3, "hue is -0.6 to 0"},
      {"color_jitter { hue_max: nan }", 3, "hue is 0 to nan"},
      {"color_jitter { brightness_max: 1 p: 1.5 }", 3, "p is 1.5"},
      {"color_jitter { brightness_max: 1 }", 4, "this one has 4"},
      {"grayscale { p: nan }", 3, "p is nan"},
      {"grayscale {}", 2, "this one has 2"},
      {"gaussian_blur {}", 3, "kernel_size is 0"},
      {"gaussian_blur { kernel_size: 4 }", 3, "kernel_size is 4"},
      {"gaussian_blur { kernel_size: 257 }", 3, "kernel_size is 257"},
      {"gaussian_blur { kernel_size: 3 sigma_max: 1 }", 3, "sigma is 0 to 1"},
      {"gaussian_blur { kernel_size: 3 p: -1 }", 3, "p is -1"},
      {"random_erasing { p: 2 }", 3, "p is 2"},
      {"random_erasing { scale_min: 0.5 scale_max: 1.1 }", 3,
       "scale is 0.5 to 1.1"},
      {"random_erasing { ratio_max: 1 }", 3, "ratio is 0 to 1"},
      {"random_erasing { value: 1 value: 2 }", 3, "has 2 values"},
      {"random_erasing { value: 256 }", 3, "value is 256"},
      {"random_erasing { value: 1 random_value: true }", 3, "both value and"},
  };
  for (const Case& c : cases) {
    const Transform transform = ParseTransform(c.text);
    const auto op = ReadColor({&transform, 5}, c.channels);
    ASSERT_FALSE(op.ok()) << c.text;
    EXPECT_EQ(op.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(op.status().message().find(c.says), std::string::npos)
        << op.status();
    EXPECT_NE(op.status().message().find("(transform 5)"), std::string::npos)
        << op.status();
  }
}

TEST(ReadColor, LeavesOtherTransformsToOthers) {
  EXPECT_FALSE(IsColor(ParseTransform("resize { short_side: 3 }")));
  EXPECT_FALSE(IsColor(Transform()));
}

}  // namespace
}  // namespace millrace
