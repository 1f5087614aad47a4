#include "server/pipeline/read_affine.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/pipeline/pixel_op_fixture.h"

namespace millrace {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint32_t kPlace = 5;

ImageStageOptions Mask(uint8_t fill) {
  ImageStageOptions options;
  options.role = FieldRole::MASK;
  options.mask_fill = fill;
  return options;
}

struct Case {
  std::string text;
  std::unique_ptr<const PixelOp> op;  // with the same meaning
  int channels = 3;
  ImageStageOptions options;
};

constexpr int kSamples = 40;

TEST(ReadAffine, MakesTheOperationThatTheSpecAsksFor) {
  const uint8_t colour[3] = {9, 8, 7};
  std::vector<Case> cases;
  RandomAffineOptions turn;
  turn.place = kPlace;
  turn.rotation = true;
  turn.degrees_min = -20;
  turn.degrees_max = 45;
  cases.push_back({"random_rotation { degrees_min: -20 degrees_max: 45 }",
                   MakeRandomAffine(turn)});
  turn.nearest = false;
  turn.fill = FillColor(colour, 3);
  turn.probability = 0.5;
  const std::string turned =
      "random_rotation { degrees_min: -20 degrees_max: 45 "
      "interpolation: INTERPOLATION_BILINEAR fill: [9, 8, 7] p: 0.5 }";
  cases.push_back({turned, MakeRandomAffine(turn)});
  turn.nearest = true;
  turn.fill = FillColor(255);
  cases.push_back({turned, MakeRandomAffine(turn), 1, Mask(255)});
  RandomAffineOptions affine;
  affine.place = kPlace;
  affine.degrees_min = affine.degrees_max = 3;
  affine.translate_x = 0.2;
  affine.translate_y = 0.1;
  affine.scale_min = 0.5;
  affine.scale_max = 2;
  affine.shear_x_min = -5;
  affine.shear_x_max = 6;
  affine.shear_y_min = 7;
  affine.shear_y_max = 8;
  affine.fill = FillColor(77);
  cases.push_back(
      {"random_affine { degrees_min: 3 degrees_max: 3 translate_x: 0.2 "
       "translate_y: 0.1 scale_min: 0.5 scale_max: 2 shear_x_min: -5 "
       "shear_x_max: 6 shear_y_min: 7 shear_y_max: 8 fill: 77 "
       "interpolation: INTERPOLATION_NEAREST }",
       MakeRandomAffine(affine), 1});
  AutoAugmentOptions trivial;
  trivial.place = kPlace;
  cases.push_back({"trivial_augment_wide {}", MakeAutoAugment(trivial)});
  trivial.bins = 3;
  trivial.nearest = false;
  trivial.fill = FillColor(colour, 3);
  trivial.probability = 0.7;
  cases.push_back(
      {"trivial_augment_wide { num_magnitude_bins: 3 fill: [9, 8, 7] "
       "interpolation: INTERPOLATION_BILINEAR p: 0.7 }",
       MakeAutoAugment(trivial)});
  AutoAugmentOptions rand;
  rand.place = kPlace;
  rand.wide = false;
  rand.num_ops = 2;
  cases.push_back({"rand_augment {}", MakeAutoAugment(rand)});
  rand.num_ops = 3;
  rand.magnitude = 0;
  rand.bins = 11;
  cases.push_back(
      {"rand_augment { num_ops: 3 magnitude: 0 num_magnitude_bins: 11 }",
       MakeAutoAugment(rand), 1});
  std::vector<std::vector<Bytes>> all;
  for (const Case& c : cases) {
    const Transform transform = ParseTransform(c.text);
    const auto op = MakePixelOp({&transform, kPlace}, c.channels, c.options);
    ASSERT_TRUE(op.ok()) << op.status();
    all.push_back(ResultsOf(**op, c.channels, kSamples));
    EXPECT_EQ(all.back(), ResultsOf(*c.op, c.channels, kSamples)) << c.text;
  }
  // Each parameter matters.
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t k = 0; k < i; ++k) EXPECT_NE(all[i], all[k]) << i << " " << k;
  }
}

TEST(ReadAffine, RefusesParametersThatMeanNothing) {
  for (const auto& [text, complaint] :
       std::vector<std::pair<std::string, std::string>>{
           {"random_rotation { degrees_min: 2 degrees_max: 1 }", "2 to 1"},
           {"random_rotation { degrees_max: nan }", "nan"},
           {"random_rotation { degrees_max: 1 p: 2 }", "p is 2"},
           {"random_rotation { degrees_max: 1 fill: [1, 2] }",
            "fill has 2 values"},
           {"random_affine { translate_y: 1.5 }", "translate is 1.5"},
           {"random_affine { scale_min: -1 scale_max: 1 }", "scale is -1"},
           {"random_affine { scale_min: 1 scale_max: inf }", "scale is 1"},
           {"random_affine { shear_x_min: 0 shear_x_max: 90 }", "shear_x"},
           {"random_affine { shear_y_min: 3 }", "shear_y"},
           {"trivial_augment_wide { num_magnitude_bins: 1 }",
            "num_magnitude_bins is 1"},
           {"rand_augment { magnitude: 31 }", "magnitude is 31"},
           {"rand_augment { num_ops: 1000 }", "num_ops is 1000"},
       }) {
    const Transform transform = ParseTransform(text);
    const auto op = MakePixelOp({&transform, kPlace}, 3, {});
    EXPECT_EQ(op.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(op.status().message().find(complaint), std::string::npos)
        << op.status();
    EXPECT_NE(op.status().message().find("(transform 5)"), std::string::npos)
        << op.status();
  }
  const Transform trivial = ParseTransform("trivial_augment_wide {}");
  EXPECT_FALSE(MakePixelOp({&trivial, kPlace}, 2, {}).ok());
  EXPECT_FALSE(MakePixelOp({&trivial, kPlace}, 1, Mask(0)).ok());
}

}  // namespace
}  // namespace millrace
