// What the transforms of a checked spec are run as.

#include "server/pipeline/stage/transform_ops.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/aligned_buffer.h"
#include "server/augment/auto_augment.h"
#include "server/augment/color_jitter.h"
#include "server/augment/gaussian_blur.h"
#include "server/augment/grayscale.h"
#include "server/augment/random_erasing.h"
#include "server/plan/transforms/transforms.h"

namespace millrace::pipeline {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint32_t kPlace = 5;

Transform ParseTransform(const std::string& text) {
  Transform transform;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &transform))
      << text;
  plan::WriteDefaults(transform);
  return transform;
}

// What `op` makes of a 30 x 40 image, for the samples 0 .. samples - 1.
std::vector<std::vector<uint8_t>> ResultsOf(const augment::PixelOp& op,
                                            int channels, int samples) {
  std::vector<std::vector<uint8_t>> results;
  for (int key = 0; key < samples; ++key) {
    std::vector<uint8_t> pixels(30 * 40 * channels);
    for (size_t i = 0; i < pixels.size(); ++i) {
      pixels[i] = static_cast<uint8_t>(i * i / 97 + 31 * (i % channels));
    }
    AlignedBuffer scratch;
    EXPECT_TRUE(op.Apply({pixels.data(), 30, 40, channels, 40 * channels},
                         {static_cast<uint64_t>(key), &scratch, nullptr})
                    .ok());
    results.push_back(pixels);
  }
  return results;
}

ImageStageOptions Mask(uint8_t fill) {
  ImageStageOptions options;
  options.role = FieldRole::MASK;
  options.mask_fill = fill;
  return options;
}

struct Case {
  std::string text;
  std::unique_ptr<const augment::PixelOp> op;  // with the same meaning
  int channels = 3;
  ImageStageOptions options;
};

constexpr int kSamples = 40;

TEST(TransformOps, AreWhatTheSpecAsksFor) {
  const uint8_t colour[3] = {9, 8, 7};
  std::vector<Case> cases;
  augment::RandomAffineOptions turn;
  turn.place = kPlace;
  turn.rotation = true;
  turn.degrees_min = -20;
  turn.degrees_max = 45;
  cases.push_back({"random_rotation { degrees_min: -20 degrees_max: 45 }",
                   augment::MakeRandomAffine(turn)});
  turn.nearest = false;
  turn.fill = augment::FillColor(colour, 3);
  turn.probability = 0.5;
  const std::string turned =
      "random_rotation { degrees_min: -20 degrees_max: 45 "
      "interpolation: INTERPOLATION_BILINEAR fill: [9, 8, 7] p: 0.5 }";
  cases.push_back({turned, augment::MakeRandomAffine(turn)});
  turn.nearest = true;
  turn.fill = augment::FillColor(255);
  cases.push_back({turned, augment::MakeRandomAffine(turn), 1, Mask(255)});
  augment::RandomAffineOptions affine;
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
  affine.fill = augment::FillColor(77);
  cases.push_back(
      {"random_affine { degrees_min: 3 degrees_max: 3 translate_x: 0.2 "
       "translate_y: 0.1 scale_min: 0.5 scale_max: 2 shear_x_min: -5 "
       "shear_x_max: 6 shear_y_min: 7 shear_y_max: 8 fill: 77 "
       "interpolation: INTERPOLATION_NEAREST }",
       augment::MakeRandomAffine(affine), 1});
  augment::AutoAugmentOptions trivial;
  trivial.place = kPlace;
  cases.push_back(
      {"trivial_augment_wide {}", augment::MakeAutoAugment(trivial)});
  trivial.bins = 3;
  trivial.nearest = false;
  trivial.fill = augment::FillColor(colour, 3);
  trivial.probability = 0.7;
  cases.push_back(
      {"trivial_augment_wide { num_magnitude_bins: 3 fill: [9, 8, 7] "
       "interpolation: INTERPOLATION_BILINEAR p: 0.7 }",
       augment::MakeAutoAugment(trivial)});
  augment::AutoAugmentOptions rand;
  rand.place = kPlace;
  rand.wide = false;
  rand.num_ops = 2;
  cases.push_back({"rand_augment {}", augment::MakeAutoAugment(rand)});
  rand.num_ops = 3;
  rand.magnitude = 0;
  rand.bins = 11;
  cases.push_back(
      {"rand_augment { num_ops: 3 magnitude: 0 num_magnitude_bins: 11 }",
       augment::MakeAutoAugment(rand), 1});
  augment::ColorJitterOptions jitter;
  jitter.place = kPlace;
  jitter.brightness = {{0.8, 1.2}};
  jitter.hue = {{-0.1, 0.1}};
  cases.push_back(
      {"color_jitter { brightness_min: 0.8 brightness_max: 1.2 "
       "hue_min: -0.1 hue_max: 0.1 }",
       augment::MakeColorJitter(jitter)});
  jitter.p = 0.5;
  jitter.contrast = {{0, 2}};
  jitter.saturation = {{3, 3}};
  cases.push_back(
      {"color_jitter { brightness_min: 0.8 brightness_max: 1.2 "
       "contrast_max: 2 saturation_min: 3 saturation_max: 3 "
       "hue_min: -0.1 hue_max: 0.1 p: 0.5 }",
       augment::MakeColorJitter(jitter)});
  cases.push_back({"grayscale {}", augment::MakeGrayscale({.place = kPlace})});
  cases.push_back({"grayscale { p: 0.3 }",
                   augment::MakeGrayscale({.place = kPlace, .p = 0.3})});
  cases.push_back(
      {"gaussian_blur { kernel_size: 7 }",
       augment::MakeGaussianBlur({.place = kPlace, .kernel_size = 7})});
  cases.push_back(
      {"gaussian_blur { kernel_size: 7 sigma_min: 1 sigma_max: 1 p: 0.6 }",
       augment::MakeGaussianBlur({.place = kPlace,
                                  .p = 0.6,
                                  .kernel_size = 7,
                                  .sigma_min = 1,
                                  .sigma_max = 1}),
       2});
  cases.push_back(
      {"random_erasing {}", augment::MakeRandomErasing({.place = kPlace})});
  cases.push_back(
      {"random_erasing { p: 1 scale_min: 0.1 scale_max: 0.2 "
       "ratio_min: 1 ratio_max: 2 value: 3 value: 4 value: 5 }",
       augment::MakeRandomErasing({.place = kPlace,
                                   .p = 1,
                                   .scale_min = 0.1,
                                   .scale_max = 0.2,
                                   .ratio_min = 1,
                                   .ratio_max = 2,
                                   .value = {3, 4, 5}})});
  cases.push_back(
      {"random_erasing { random_value: true }",
       augment::MakeRandomErasing({.place = kPlace, .random_value = true}), 1});
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

// 0 .. 0 left the colours unchanged.
TEST(TransformOps, AFactorOfZeroIsAFactor) {
  augment::ColorJitterOptions grey, black;
  grey.place = black.place = kPlace;
  grey.saturation = black.brightness = {{0, 0}};
  const std::pair<std::string, augment::ColorJitterOptions> cases[] = {
      {"color_jitter { saturation_min: 0 saturation_max: 0 }", grey},
      {"color_jitter { brightness_min: 0 brightness_max: 0 }", black}};
  for (const auto& [text, options] : cases) {
    const Transform transform = ParseTransform(text);
    const auto op = MakePixelOp({&transform, kPlace}, 3, {});
    ASSERT_TRUE(op.ok()) << op.status();
    EXPECT_EQ(ResultsOf(**op, 3, 5),
              ResultsOf(*augment::MakeColorJitter(options), 3, 5))
        << text;
  }
}

// The stage gives each transform the sample's key and its place in the spec,
// whichever thread runs it and whatever stands before.
TEST(TransformOps, RunInsideAStageAsTheyDoAlone) {
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

  constexpr uint64_t kKeys = 24;
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
  for (uint64_t key = 0; key < kKeys; ++key) {
    Bytes pixels = run(**cropped, *scratch, key);
    for (size_t k = geometry.size(); k < placed.size(); ++k) {
      const auto op = MakePixelOp(placed[k], 3, {});
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
      for (uint64_t key = 0; key < kKeys; ++key) {
        EXPECT_EQ(run(**whole, *own, key), want[key]) << key;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

augment::GeometryOp Geometry(const std::string& text,
                             const ImageStageOptions& options = {}) {
  const Transform transform = ParseTransform(text);
  const auto op = GeometryOf({&transform, kPlace}, options);
  EXPECT_TRUE(op.has_value()) << text;
  EXPECT_EQ(op->place, kPlace);
  return *op;
}

TEST(TransformOps, GeometryIsWhatTheSpecAsksFor) {
  using Kind = augment::GeometryOp::Kind;
  augment::GeometryOp op =
      Geometry("random_resized_crop { height: 4 width: 5 }");
  EXPECT_EQ(op.kind, Kind::kRandomResizedCrop);
  EXPECT_EQ(op.size, (augment::Size{5, 4}));
  EXPECT_EQ(op.probability, 1);
  EXPECT_TRUE(op.antialias);
  EXPECT_FALSE(op.nearest);
  const augment::CropDistribution usual;
  EXPECT_EQ(op.distribution.scale_min, usual.scale_min);
  EXPECT_EQ(op.distribution.scale_max, usual.scale_max);
  EXPECT_NEAR(op.distribution.log_ratio_min, usual.log_ratio_min, 1e-12);
  EXPECT_NEAR(op.distribution.log_ratio_max, usual.log_ratio_max, 1e-12);
  op = Geometry(
      "random_resized_crop { height: 4 width: 5 p: 0.3 no_antialias: true "
      "scale_min: 0.5 scale_max: 0.6 ratio_min: 1 ratio_max: 1 "
      "interpolation: INTERPOLATION_NEAREST }");
  EXPECT_EQ(op.probability, 0.3);
  EXPECT_FALSE(op.antialias);
  EXPECT_TRUE(op.nearest);
  EXPECT_EQ(op.distribution.scale_min, 0.5);
  EXPECT_EQ(op.distribution.scale_max, 0.6);
  EXPECT_NEAR(op.distribution.log_ratio_min, 0, 1e-12);
  EXPECT_NEAR(op.distribution.log_ratio_max, 0, 1e-12);
  op = Geometry("resize { short_side: 7 }");
  EXPECT_EQ(op.kind, Kind::kResizeShortSide);
  EXPECT_EQ(op.short_side, 7);
  EXPECT_FALSE(op.nearest);
  EXPECT_TRUE(Geometry("resize { short_side: 7 }", Mask(9)).nearest);
  op = Geometry("resize { height: 7 width: 8 }");
  EXPECT_EQ(op.kind, Kind::kResize);
  EXPECT_EQ(op.size, (augment::Size{8, 7}));
  op = Geometry("center_crop { height: 7 width: 8 }", Mask(9));
  EXPECT_EQ(op.kind, Kind::kCenterCrop);
  EXPECT_EQ(op.size, (augment::Size{8, 7}));
  EXPECT_EQ(op.fill, augment::FillColor(9));
  op = Geometry(
      "random_crop { height: 7 width: 8 padding: [1, 2] pad_if_needed: true "
      "padding_mode: PADDING_SYMMETRIC p: 0.25 }");
  EXPECT_EQ(op.kind, Kind::kRandomCrop);
  EXPECT_EQ(op.size, (augment::Size{8, 7}));
  EXPECT_EQ(op.padding, (augment::Padding{1, 2, 1, 2}));
  EXPECT_TRUE(op.pad_if_needed);
  EXPECT_EQ(op.surround, augment::Surround::kSymmetric);
  EXPECT_EQ(op.probability, 0.25);
  const uint8_t colour[3] = {1, 2, 3};
  op = Geometry("pad { padding: [1, 2, 3, 4] fill: [1, 2, 3] }");
  EXPECT_EQ(op.kind, Kind::kPad);
  EXPECT_EQ(op.padding, (augment::Padding{1, 2, 3, 4}));
  EXPECT_EQ(op.surround, augment::Surround::kFill);
  EXPECT_EQ(op.fill, augment::FillColor(colour, 3));
  EXPECT_EQ(Geometry("pad { padding: 1 padding_mode: PADDING_EDGE }").surround,
            augment::Surround::kEdge);
  EXPECT_EQ(
      Geometry("pad { padding: 1 padding_mode: PADDING_REFLECT }").surround,
      augment::Surround::kReflect);
  op = Geometry("horizontal_flip {}");
  EXPECT_EQ(op.kind, Kind::kHorizontalFlip);
  EXPECT_EQ(op.probability, 0.5);
  op = Geometry("vertical_flip { p: 0.1 }");
  EXPECT_EQ(op.kind, Kind::kVerticalFlip);
  EXPECT_EQ(op.probability, 0.1);
}

// Bounds are the plan's alone: what lies beyond them is not looked at twice.
TEST(TransformOps, TrustTheMessage) {
  for (const char* text : {"random_rotation { degrees_max: 1e5 }",
                           "random_affine { shear_x_max: 89.5 }",
                           "color_jitter { brightness_max: 1e4 }",
                           "gaussian_blur { kernel_size: 129 }",
                           "random_erasing { ratio_min: 0.005 ratio_max: 200 }",
                           "trivial_augment_wide { num_magnitude_bins: 2000 }",
                           "rand_augment { num_ops: 50 }"}) {
    const Transform transform = ParseTransform(text);
    EXPECT_FALSE(plan::FindTransformProblems(transform).empty()) << text;
    const auto op = MakePixelOp({&transform, kPlace}, 3, {});
    EXPECT_TRUE(op.ok()) << op.status();
  }
}

TEST(TransformOps, LeaveOtherTransformsToOthers) {
  const Transform resize = ParseTransform("resize { short_side: 3 }");
  EXPECT_FALSE(AffineOf({&resize, kPlace}, {}).has_value());
  EXPECT_EQ(MakePixelOp({&resize, kPlace}, 3, {}).status().code(),
            absl::StatusCode::kUnimplemented);
  const Transform grey = ParseTransform("grayscale {}");
  EXPECT_FALSE(GeometryOf({&grey, kPlace}, {}).has_value());
  EXPECT_FALSE(AffineOf({&grey, kPlace}, {}).has_value());
}

}  // namespace
}  // namespace millrace::pipeline
