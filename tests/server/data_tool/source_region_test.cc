// The part of a stored image that a result shows, for transforms without
// chance; preview_test.cc compares those with chance with what was drawn.

#include "server/data_tool/source_region.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"

namespace millrace::data_tool {
namespace {

std::vector<picture::PicturePoint> Region(const std::vector<std::string>& texts,
                                          augment::Size stored) {
  std::vector<Transform> transforms;
  for (const std::string& text : texts) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        text, &transforms.emplace_back()))
        << text;
  }
  std::vector<pipeline::PlacedTransform> placed;
  for (const Transform& transform : transforms) {
    placed.push_back({&transform, static_cast<uint32_t>(placed.size())});
  }
  const auto region = SourceRegion(placed, stored, 7);
  EXPECT_TRUE(region.ok()) << region.status();
  return region.ok() ? *region : std::vector<picture::PicturePoint>();
}

// Whichever comes first.
void ExpectCorners(const std::vector<picture::PicturePoint>& region,
                   const std::vector<picture::PicturePoint>& wanted) {
  ASSERT_EQ(region.size(), wanted.size());
  for (const picture::PicturePoint& corner : wanted) {
    EXPECT_TRUE(std::any_of(region.begin(), region.end(),
                            [&](const picture::PicturePoint& one) {
                              return std::abs(one.x - corner.x) < 1e-9 &&
                                     std::abs(one.y - corner.y) < 1e-9;
                            }))
        << corner.x << " " << corner.y;
  }
}

constexpr char kDecode[] = "decode_image {}";
constexpr char kFlip[] = "horizontal_flip { p: 1 }";

TEST(SourceRegion, IsNothingWhereTheWholeImageIsShown) {
  EXPECT_TRUE(Region({kDecode}, {200, 100}).empty());
  EXPECT_TRUE(
      Region({kDecode, "resize { height: 30 width: 40 }", kFlip}, {200, 100})
          .empty());
}

TEST(SourceRegion, ACropAfterAResizeIsThatOfTheStoredImage) {
  // 200 x 100 -> 400 x 200 -> the middle 100 x 100.
  ExpectCorners(Region({kDecode, "resize { height: 200 width: 400 }",
                        "center_crop { height: 100 width: 100 }"},
                       {200, 100}),
                {{75, 25}, {125, 25}, {125, 75}, {75, 75}});
}

TEST(SourceRegion, AFlipIsUndone) {
  // The right half of a mirrored image is its left half.
  ExpectCorners(Region({kDecode, kFlip, "pad { padding: [0, 0, 100, 0] }",
                        "center_crop { height: 100 width: 100 }"},
                       {200, 100}),
                {{0, 0}, {100, 0}, {100, 100}, {0, 100}});
  ExpectCorners(Region({kDecode, "vertical_flip { p: 1 }",
                        "pad { padding: [0, 0, 0, 100] }",
                        "center_crop { height: 100 width: 100 }"},
                       {100, 200}),
                {{0, 0}, {100, 0}, {100, 100}, {0, 100}});
}

TEST(SourceRegion, PaddingShowsNothingMore) {
  const std::string pad = "pad { padding: [1, 2, 3, 4] }";
  EXPECT_TRUE(Region({kDecode, pad}, {200, 100}).empty());
  // Also where there would be more of the image.
  ExpectCorners(Region({kDecode, "center_crop { height: 60 width: 20 }", pad},
                       {200, 100}),
                {{90, 20}, {110, 20}, {110, 80}, {90, 80}});
}

TEST(SourceRegion, ATurnIsUndone) {
  // Counter-clockwise by a quarter: the upper half of the result shows the
  // right half of the image.
  ExpectCorners(
      Region(
          {kDecode, "random_rotation { degrees_min: 90 degrees_max: 90 p: 1 }",
           "pad { padding: [0, 50, 0, 0] }",
           "center_crop { height: 50 width: 100 }"},
          {100, 100}),
      {{50, 0}, {100, 0}, {100, 100}, {50, 100}});
}

TEST(SourceRegion, ATurnThatCutsCornersOffShowsAnOctagon) {
  const std::vector<picture::PicturePoint> region = Region(
      {kDecode, "random_rotation { degrees_min: 45 degrees_max: 45 p: 1 }"},
      {100, 100});
  ASSERT_EQ(region.size(), 8u);
  const double cut = 100 * (1 - std::sqrt(0.5));  // off each side's ends
  for (const picture::PicturePoint& corner : region) {
    const double along =
        corner.x < 1e-6 || corner.x > 100 - 1e-6 ? corner.y : corner.x;
    EXPECT_NEAR(std::min(along, 100 - along), cut, 1e-6);
  }
}

TEST(SourceRegion, AnImageThatIsTooSmallIsRefused) {
  Transform crop;
  crop.mutable_random_crop()->set_height(50);
  crop.mutable_random_crop()->set_width(50);
  const pipeline::PlacedTransform placed[] = {{&crop, 0}};
  EXPECT_EQ(SourceRegion(placed, {20, 20}, 7).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace millrace::data_tool
