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
  const GeometryChain chain(
      {ShortSide(0, 256), Op(Kind::kCenterCrop, 1, {224, 224})}, std::nullopt);
  EXPECT_EQ(chain.output(), (Size{224, 224}));
  const SegmentList segments = *chain.Plan({500, 375}, 9);
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].box, (Rect{0, 0, 500, 375}));
  EXPECT_EQ(segments[0].resized, (Size{341, 256}));
  EXPECT_EQ(segments[0].window, (Rect{58, 16, 224, 224}));
  EXPECT_EQ(segments[0].canvas, (Size{224, 224}));
}

TEST(GeometryChain, CropBeforeResizeNarrowsTheBox) {
  const GeometryChain chain(
      {Op(Kind::kCenterCrop, 0, {100, 80}), Op(Kind::kResize, 1, {50, 40})},
      std::nullopt);
  const SegmentList segments = *chain.Plan({200, 100}, 9);
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].box, (Rect{50, 10, 100, 80}));
  EXPECT_TRUE(segments[0].resize);
  EXPECT_EQ(segments[0].window, (Rect{0, 0, 50, 40}));
}

TEST(GeometryChain, SecondResizeBeginsASecondSegment) {
  const GeometryChain chain(
      {Op(Kind::kResize, 0, {64, 64}),
       Op(Kind::kRandomResizedCrop, 1, {32, 32}), Flip(2, 1.0)},
      std::nullopt);
  const SegmentList segments = *chain.Plan({200, 100}, 9);
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_FALSE(segments[0].flip);
  EXPECT_TRUE(segments[1].flip);
  EXPECT_LE(segments[1].box.left + segments[1].box.width, 64);
  EXPECT_EQ(segments[1].canvas, (Size{32, 32}));
}

TEST(GeometryChain, PadsWhatIsTooSmall) {
  const GeometryChain chain({Op(Kind::kCenterCrop, 0, {224, 224})},
                            std::nullopt);
  const SegmentList segments = *chain.Plan({101, 301}, 9);
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].box, (Rect{0, 38, 101, 224}));
  EXPECT_EQ(segments[0].canvas, (Size{224, 224}));
  EXPECT_EQ(segments[0].pad_left, 61);
  EXPECT_EQ(segments[0].pad_top, 0);
}

TEST(GeometryChain, ACropAfterAFlipIsTakenFromTheMirroredImage) {
  // 225 wide, 222 wanted: torchvision begins at column 2 (of the mirrored
  // image), which is column 1 of the image itself.
  const GeometryChain chain({Flip(0, 1.0), Op(Kind::kCenterCrop, 1, {222, 10})},
                            std::nullopt);
  const SegmentList segments = *chain.Plan({225, 10}, 9);
  ASSERT_EQ(segments.size(), 1u);
  EXPECT_EQ(segments[0].box, (Rect{1, 0, 222, 10}));
  EXPECT_TRUE(segments[0].flip);
}

TEST(GeometryChain, FlipsAsOftenAsItsProbabilitySays) {
  for (double p : {0.0, 0.25, 0.5, 1.0}) {
    const GeometryChain chain({Flip(0, p)}, Size{8, 8});
    int flips = 0;
    for (uint64_t key = 0; key < 20000; ++key) {
      flips += (*chain.Plan({8, 8}, key))[0].flip;
    }
    EXPECT_NEAR(flips, p * 20000, p == 0 || p == 1 ? 0 : 250) << p;
  }
}

TEST(GeometryChain, PlaceIsPartOfTheRandomKey) {
  const GeometryChain a({Op(Kind::kRandomResizedCrop, 0, {32, 32})},
                        std::nullopt);
  const GeometryChain b({Op(Kind::kRandomResizedCrop, 1, {32, 32})},
                        std::nullopt);
  EXPECT_EQ((*a.Plan({500, 375}, 5))[0].box, (*a.Plan({500, 375}, 5))[0].box);
  EXPECT_NE((*a.Plan({500, 375}, 5))[0].box, (*b.Plan({500, 375}, 5))[0].box);
  EXPECT_NE((*a.Plan({500, 375}, 5))[0].box, (*a.Plan({500, 375}, 6))[0].box);
}

TEST(GeometryChain, KnowsTheSizeThatEveryResultHas) {
  EXPECT_EQ(GeometryChain({ShortSide(3, 256)}, std::nullopt).output(),
            std::nullopt);
  EXPECT_EQ(GeometryChain({}, std::nullopt).output(), std::nullopt);
  // Raw pixels have one size already.
  EXPECT_EQ(GeometryChain({ShortSide(3, 14)}, Size{28, 56}).output(),
            (Size{14, 28}));
  EXPECT_EQ(GeometryChain({Flip(0, 0.5)}, Size{28, 56}).output(),
            (Size{28, 56}));
  GeometryOp pad;
  pad.kind = Kind::kPad;
  pad.padding = {4, 5, 6, 7};
  EXPECT_EQ(GeometryChain({pad}, std::nullopt).output(), std::nullopt);
  EXPECT_EQ(GeometryChain({pad}, Size{28, 20}).output(), (Size{38, 32}));
}

}  // namespace
}  // namespace millrace::augment
