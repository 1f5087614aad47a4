// The part of a stored image that a result shows, for transforms without
// chance; preview_test.cc compares those with chance with what was drawn.

#include "server/data_tool/source_region.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "google/protobuf/text_format.h"

namespace millrace {
namespace {

std::vector<PicturePoint> Region(const std::vector<std::string>& texts,
                                 Size stored) {
  std::vector<Transform> transforms;
  for (const std::string& text : texts) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        text, &transforms.emplace_back()))
        << text;
  }
  std::vector<PlacedTransform> placed;
  for (const Transform& transform : transforms) {
    placed.push_back({&transform, static_cast<uint32_t>(placed.size())});
  }
  const auto region = SourceRegion(placed, stored, 7);
  EXPECT_TRUE(region.ok()) << region.status();
  return region.ok() ? *region : std::vector<PicturePoint>();
}

void ExpectCorners(const std::vector<PicturePoint>& region,
                   const std::vector<PicturePoint>& wanted) {
  ASSERT_EQ(region.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(region[i].x, wanted[i].x, 1e-9) << i;
    EXPECT_NEAR(region[i].y, wanted[i].y, 1e-9) << i;
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

TEST(SourceRegion, AFlipTurnsTheCornersRound) {
  const std::string crop = "center_crop { height: 60 width: 20 }";
  ExpectCorners(Region({kDecode, crop, kFlip}, {200, 100}),
                {{110, 20}, {90, 20}, {90, 80}, {110, 80}});
  ExpectCorners(Region({kDecode, crop, "vertical_flip { p: 1 }"}, {200, 100}),
                {{90, 80}, {110, 80}, {110, 20}, {90, 20}});
}

TEST(SourceRegion, PaddingLiesOutsideTheImage) {
  ExpectCorners(Region({kDecode, "pad { padding: [1, 2, 3, 4] }"}, {200, 100}),
                {{-1, -2}, {203, -2}, {203, 104}, {-1, 104}});
}

TEST(SourceRegion, ATurnIsUndone) {
  // Counter-clockwise by a quarter: the upper left corner of the result shows
  // the upper right one of the image.
  ExpectCorners(
      Region({kDecode, "center_crop { height: 60 width: 60 }",
              "random_rotation { degrees_min: 90 degrees_max: 90 p: 1 }"},
             {200, 100}),
      {{130, 20}, {130, 80}, {70, 80}, {70, 20}});
}

TEST(SourceRegion, AnImageThatIsTooSmallIsRefused) {
  Transform crop;
  crop.mutable_random_crop()->set_height(50);
  crop.mutable_random_crop()->set_width(50);
  const PlacedTransform placed[] = {{&crop, 0}};
  EXPECT_EQ(SourceRegion(placed, {20, 20}, 7).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace millrace
