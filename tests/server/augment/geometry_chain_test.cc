#include "server/augment/geometry_chain.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::augment {
namespace {

using Kind = GeometryOp::Kind;

GeometryOp Op(Kind kind, uint32_t place, Size size) {
  GeometryOp op;
  op.kind = kind;
  op.place = place;
  op.size = size;
  return op;
}

GeometryOp ShortSide(uint32_t place, int64_t side) {
  GeometryOp op;
  op.kind = Kind::kResizeShortSide;
  op.place = place;
  op.short_side = side;
  return op;
}

GeometryOp Flip(uint32_t place, double probability) {
  GeometryOp op;
  op.kind = Kind::kHorizontalFlip;
  op.place = place;
  op.probability = probability;
  return op;
}

TEST(GeometryChain, FoldsResizeAndCenterCropIntoOneSegment) {
  auto chain = GeometryChain::Create(
      {ShortSide(0, 256), Op(Kind::kCenterCrop, 1, {224, 224})}, std::nullopt);
  ASSERT_TRUE(chain.ok());
  EXPECT_EQ(chain->output(), (Size{224, 224}));
  const SegmentList segments = *chain->Plan({500, 375}, 9);
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].box, (Rect{0, 0, 500, 375}));
  EXPECT_EQ(segments[0].resized, (Size{341, 256}));
  EXPECT_EQ(segments[0].window, (Rect{58, 16, 224, 224}));
  EXPECT_EQ(segments[0].canvas, (Size{224, 224}));
}

TEST(GeometryChain, CropBeforeResizeNarrowsTheBox) {
  auto chain = GeometryChain::Create(
      {Op(Kind::kCenterCrop, 0, {100, 80}), Op(Kind::kResize, 1, {50, 40})},
      std::nullopt);
  ASSERT_TRUE(chain.ok());
  const SegmentList segments = *chain->Plan({200, 100}, 9);
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].box, (Rect{50, 10, 100, 80}));
  EXPECT_TRUE(segments[0].resize);
  EXPECT_EQ(segments[0].window, (Rect{0, 0, 50, 40}));
}

TEST(GeometryChain, SecondResizeBeginsASecondSegment) {
  auto chain = GeometryChain::Create(
      {Op(Kind::kResize, 0, {64, 64}),
       Op(Kind::kRandomResizedCrop, 1, {32, 32}), Flip(2, 1.0)},
      std::nullopt);
  ASSERT_TRUE(chain.ok());
  const SegmentList segments = *chain->Plan({200, 100}, 9);
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_FALSE(segments[0].flip);
  EXPECT_TRUE(segments[1].flip);
  EXPECT_LE(segments[1].box.left + segments[1].box.width, 64);
  EXPECT_EQ(segments[1].canvas, (Size{32, 32}));
}

TEST(GeometryChain, PadsWhatIsTooSmall) {
  auto chain = GeometryChain::Create({Op(Kind::kCenterCrop, 0, {224, 224})},
                                     std::nullopt);
  ASSERT_TRUE(chain.ok());
  const SegmentList segments = *chain->Plan({101, 301}, 9);
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].box, (Rect{0, 38, 101, 224}));
  EXPECT_EQ(segments[0].canvas, (Size{224, 224}));
  EXPECT_EQ(segments[0].pad_left, 61);
  EXPECT_EQ(segments[0].pad_top, 0);
}

TEST(GeometryChain, ACropAfterAFlipIsTakenFromTheMirroredImage) {
  // 225 wide, 222 wanted: torchvision begins at column 2 (of the mirrored
  // image), which is column 1 of the image itself.
  auto chain = GeometryChain::Create(
      {Flip(0, 1.0), Op(Kind::kCenterCrop, 1, {222, 10})}, std::nullopt);
  ASSERT_TRUE(chain.ok());
  const SegmentList segments = *chain->Plan({225, 10}, 9);
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].box, (Rect{1, 0, 222, 10}));
  EXPECT_TRUE(segments[0].flip);
}

TEST(GeometryChain, FlipsAsOftenAsItsProbabilitySays) {
  for (double p : {0.0, 0.25, 0.5, 1.0}) {
    auto chain = GeometryChain::Create({Flip(0, p)}, Size{8, 8});
    ASSERT_TRUE(chain.ok());
    int flips = 0;
    for (uint64_t key = 0; key < 20000; ++key) {
      flips += (*chain->Plan({8, 8}, key))[0].flip;
    }
    EXPECT_NEAR(flips, p * 20000, p == 0 || p == 1 ? 0 : 250) << p;
  }
}

TEST(GeometryChain, PlaceIsPartOfTheRandomKey) {
  auto a = GeometryChain::Create({Op(Kind::kRandomResizedCrop, 0, {32, 32})},
                                 std::nullopt);
  auto b = GeometryChain::Create({Op(Kind::kRandomResizedCrop, 1, {32, 32})},
                                 std::nullopt);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ((*a->Plan({500, 375}, 5))[0].box, (*a->Plan({500, 375}, 5))[0].box);
  EXPECT_NE((*a->Plan({500, 375}, 5))[0].box, (*b->Plan({500, 375}, 5))[0].box);
  EXPECT_NE((*a->Plan({500, 375}, 5))[0].box, (*a->Plan({500, 375}, 6))[0].box);
}

TEST(GeometryChain, RefusesResultsOfDifferentSizes) {
  auto chain = GeometryChain::Create({ShortSide(3, 256)}, std::nullopt);
  ASSERT_EQ(chain.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(chain.status().message().find("resize (transform 3)"),
            std::string::npos)
      << chain.status();
  EXPECT_EQ(GeometryChain::Create({}, std::nullopt).status().code(),
            absl::StatusCode::kInvalidArgument);
  // Raw pixels have one size already.
  auto raw = GeometryChain::Create({ShortSide(3, 14)}, Size{28, 56});
  ASSERT_TRUE(raw.ok());
  EXPECT_EQ(raw->output(), (Size{14, 28}));
}

TEST(GeometryChain, RefusesAbsurdSizes) {
  for (const Size size : {Size{0, 5}, Size{5, 0}, Size{65536, 5}}) {
    auto chain =
        GeometryChain::Create({Op(Kind::kResize, 2, size)}, std::nullopt);
    ASSERT_EQ(chain.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(chain.status().message().find("resize (transform 2)"),
              std::string::npos)
        << chain.status();
  }
  EXPECT_FALSE(GeometryChain::Create({ShortSide(0, 0)}, Size{5, 5}).ok());
}

}  // namespace
}  // namespace millrace::augment
