#include "server/augment/geometry_op.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "server/augment/geometry_chain.h"

namespace millrace::augment {
namespace {

using Kind = GeometryOp::Kind;

class Log : public ParameterLog {
 public:
  void Add(uint32_t place, std::string what) override {
    lines.push_back(std::to_string(place) + ": " + what);
  }
  std::vector<std::string> lines;
};

GeometryOp RandomCrop(Size size, Padding padding = {}) {
  GeometryOp op;
  op.kind = Kind::kRandomCrop;
  op.name = "random_crop";
  op.place = 3;
  op.size = size;
  op.padding = padding;
  return op;
}

// The one cut that the op makes of an image; the whole image without one.
Rect CutOf(const GeometryOp& op, Size size, uint64_t key) {
  StepList steps;
  Size after = size;
  EXPECT_TRUE(Resolve(op, key, nullptr, after, steps).ok());
  if (steps.empty()) return {0, 0, size.width, size.height};
  EXPECT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].kind, GeometryStep::Kind::kCut);
  EXPECT_EQ(after, (Size{steps[0].rect.width, steps[0].rect.height}));
  return steps[0].rect;
}

double ChiSquare(const std::vector<int>& counts, double expected) {
  double sum = 0;
  for (int c : counts) sum += (c - expected) * (c - expected) / expected;
  return sum;
}

// torchvision: torch.randint(0, padded - window + 1) for each axis.
TEST(RandomCrop, TakesEveryWindowOfThePaddedImageEquallyOften) {
  const GeometryOp op = RandomCrop({32, 30}, {4, 2, 4, 1});
  constexpr int kSamples = 36000;
  std::vector<int> places(9 * 6);
  for (uint64_t key = 0; key < kSamples; ++key) {
    const Rect cut = CutOf(op, {32, 32}, key);
    ASSERT_EQ(cut.width, 32);
    ASSERT_EQ(cut.height, 30);
    ASSERT_TRUE(cut.left >= -4 && cut.left <= 4) << cut.left;
    ASSERT_TRUE(cut.top >= -2 && cut.top <= 3) << cut.top;
    ++places[(cut.left + 4) * 6 + cut.top + 2];
  }
  // 53 degrees of freedom, 0.1 %.
  EXPECT_LT(ChiSquare(places, kSamples / 54.0), 90.6);
}

TEST(RandomCrop, PadsBothSidesByWhatAnAxisLacks) {
  GeometryOp op = RandomCrop({10, 50}, {1, 1, 1, 1});
  op.pad_if_needed = true;
  // 40 + 2 of 50 rows: 8 more above and 8 more below, 58 in all.
  std::vector<int> tops(9);
  for (uint64_t key = 0; key < 9000; ++key) {
    const Rect cut = CutOf(op, {10, 40}, key);
    ASSERT_TRUE(cut.top >= -9 && cut.top <= -1) << cut.top;
    ASSERT_TRUE(cut.left >= -1 && cut.left <= 1) << cut.left;
    ++tops[cut.top + 9];
  }
  EXPECT_LT(ChiSquare(tops, 1000), 26.1);  // 8 degrees of freedom
}

TEST(RandomCrop, TakesTheMiddleWhereItIsNotApplied) {
  GeometryOp op = RandomCrop({8, 8}, {3, 0, 0, 0});
  op.probability = 0.4;
  int middle = 0;
  for (uint64_t key = 0; key < 20000; ++key) {
    // 60 + 3 columns, 41 rows: the middle begins at column 28 (27.5 goes to
    // the even side) and row 16 of the padded image.
    middle += CutOf(op, {60, 41}, key) == Rect{25, 16, 8, 8};
  }
  EXPECT_NEAR(middle, 12000, 250);
}

TEST(RandomCrop, RefusesImagesBelowTheWindow) {
  StepList steps;
  Size size = {31, 64};
  const absl::Status status =
      Resolve(RandomCrop({32, 32}), 1, nullptr, size, steps);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("random_crop (transform 3)"),
            std::string::npos);
  EXPECT_NE(status.message().find("64 x 31"), std::string::npos) << status;
  EXPECT_NE(status.message().find("pad_if_needed"), std::string::npos);
}

TEST(RandomResizedCrop, TakesTheWholeImageWhereItIsNotApplied) {
  GeometryOp op;
  op.kind = Kind::kRandomResizedCrop;
  op.size = {16, 16};
  op.probability = 0.25;
  int whole = 0;
  for (uint64_t key = 0; key < 20000; ++key) {
    StepList steps;
    Size size = {60, 40};
    ASSERT_TRUE(Resolve(op, key, nullptr, size, steps).ok());
    EXPECT_EQ(size, (Size{16, 16}));
    whole += steps.size() == 1 && steps[0].kind == GeometryStep::Kind::kResize;
  }
  EXPECT_NEAR(whole, 15000, 250);
}

TEST(Flips, AreDrawnIndependently) {
  GeometryOp across, down;
  across.kind = Kind::kHorizontalFlip;
  across.place = 4;
  across.probability = 0.5;
  down.kind = Kind::kVerticalFlip;
  down.place = 5;
  down.probability = 0.5;
  std::vector<int> counts(4);
  for (uint64_t key = 0; key < 20000; ++key) {
    StepList steps;
    Size size = {2, 2};
    ASSERT_TRUE(Resolve(across, key, nullptr, size, steps).ok());
    const size_t first = steps.size();
    ASSERT_TRUE(Resolve(down, key, nullptr, size, steps).ok());
    ++counts[first * 2 + steps.size() - first];
  }
  EXPECT_LT(ChiSquare(counts, 5000), 16.3);  // 3 degrees of freedom
}

TEST(Resolve, SaysWhatItHasDrawn) {
  Log log;
  StepList steps;
  Size size = {10, 10};
  GeometryOp flip;
  flip.kind = Kind::kVerticalFlip;
  flip.place = 1;
  ASSERT_TRUE(Resolve(flip, 1, &log, size, steps).ok());
  flip.probability = 0;
  ASSERT_TRUE(Resolve(flip, 1, &log, size, steps).ok());
  ASSERT_TRUE(Resolve(RandomCrop({10, 10}), 1, &log, size, steps).ok());
  EXPECT_EQ(log.lines, (std::vector<std::string>{
                           "1: flipped", "1: not flipped",
                           "3: left 0, top 0, width 10, height 10"}));
}

// numpy.pad(range(size), 6, mode): "edge", "reflect", "symmetric".
TEST(SurroundSource, GoesOnAsNumpysPad) {
  struct Case {
    Surround surround;
    int64_t size;
    std::vector<int64_t> want;
  };
  for (const Case& c : std::vector<Case>{
           {Surround::kEdge, 3, {0, 0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 2}},
           {Surround::kReflect,
            3,
            {2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2, 1, 0}},
           {Surround::kSymmetric,
            3,
            {0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1, 2}},
           {Surround::kReflect, 1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
           {Surround::kSymmetric, 1, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
       }) {
    for (size_t i = 0; i < c.want.size(); ++i) {
      EXPECT_EQ(SurroundSource(c.surround, static_cast<int64_t>(i) - 6, c.size),
                c.want[i])
          << static_cast<int>(c.surround) << " " << i;
    }
  }
}

GeometryChain Chain(std::vector<GeometryOp> ops) {
  return GeometryChain(std::move(ops), std::nullopt);
}

// What a decoder is asked for is what the canvas shows.
TEST(GeometryChain, ACropOfAPaddedImageReadsOnlyWhatItShows) {
  for (const Surround surround :
       {Surround::kFill, Surround::kEdge, Surround::kReflect}) {
    GeometryOp op = RandomCrop({32, 32}, {8, 8, 8, 8});
    op.surround = surround;
    const GeometryChain chain = Chain({op});
    for (uint64_t key = 0; key < 200; ++key) {
      const auto plan = chain.Plan({100, 60}, key);
      ASSERT_TRUE(plan.ok());
      ASSERT_EQ(plan->size(), 1u);
      const Segment& s = (*plan)[0];
      EXPECT_EQ(s.canvas, (Size{32, 32}));
      EXPECT_LE(s.box.width, 32);
      EXPECT_LE(s.box.height, 32);
      EXPECT_GE(s.box.left, 0);
      EXPECT_LE(s.box.left + s.box.width, 100);
      if (surround == Surround::kFill) {
        // Exactly the part of the window that lies inside the image.
        const Rect cut = CutOf(op, {100, 60}, key);
        EXPECT_EQ(s.box.left, std::max<int64_t>(cut.left, 0));
        EXPECT_EQ(s.box.left + s.box.width,
                  std::min<int64_t>(cut.left + 32, 100));
        EXPECT_EQ(s.box.top, std::max<int64_t>(cut.top, 0));
        EXPECT_EQ(s.box.top + s.box.height,
                  std::min<int64_t>(cut.top + 32, 60));
      }
    }
  }
}

TEST(GeometryChain, PadsCropsAndFlipsOfOneFillAreOneSegment) {
  GeometryOp pad;
  pad.kind = Kind::kPad;
  pad.padding = {4, 4, 4, 4};
  GeometryOp flip;
  flip.kind = Kind::kHorizontalFlip;
  GeometryOp center;
  center.kind = Kind::kCenterCrop;
  center.size = {64, 64};
  const GeometryChain chain =
      Chain({pad, flip, RandomCrop({36, 36}), flip, center});
  const auto plan = chain.Plan({32, 32}, 5);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->size(), 1u);
  EXPECT_EQ((*plan)[0].canvas, (Size{64, 64}));
  EXPECT_FALSE((*plan)[0].flip);
}

// Of a crop that shows padding alone one pixel is still named, but not drawn.
TEST(GeometryChain, ACropMayShowPaddingAlone) {
  GeometryOp pad;
  pad.kind = Kind::kPad;
  pad.padding = {100, 0, 0, 0};
  pad.fill = FillColor(7);
  const GeometryChain chain = Chain({pad, RandomCrop({4, 4})});
  int empty = 0;
  for (uint64_t key = 0; key < 500; ++key) {
    const auto plan = chain.Plan({10, 10}, key);
    ASSERT_TRUE(plan.ok());
    const Segment& s = (*plan)[0];
    ASSERT_GE(s.box.width, 1);
    ASSERT_GE(s.box.height, 1);
    if (s.window.width > 0) continue;
    ++empty;
    EXPECT_EQ(s.window.height, 0);
    EXPECT_FALSE(s.resize);
    EXPECT_EQ(s.fill.of(0), 7);
  }
  EXPECT_GT(empty, 300);
}

}  // namespace
}  // namespace millrace::augment
