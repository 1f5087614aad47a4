#include "server/augment/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "hwy/targets.h"
#include "server/augment/random.h"

namespace millrace::augment {
namespace {

struct Case {
  int64_t width, height;            // of the source
  double left, top, right, bottom;  // the box
  int64_t resized_width, resized_height;
  int64_t first_x, first_y, out_width, out_height;  // the window
  int channels;
  bool antialias;
  bool flip;
};

std::vector<uint8_t> Noise(int64_t bytes, uint64_t key) {
  CounterRandom random(key, 0);
  std::vector<uint8_t> noise(bytes + kResizeReadSlack);
  for (uint8_t& b : noise) b = static_cast<uint8_t>(random.Next64() >> 56);
  return noise;
}

void BuildFilters(const Case& c, AxisFilter& x, AxisFilter& y) {
  x.Build({c.left, c.right, static_cast<int64_t>(c.left),
           std::min<int64_t>(c.width, static_cast<int64_t>(c.right + 0.999)),
           c.resized_width, c.first_x, c.out_width, c.antialias});
  y.Build({c.top, c.bottom, static_cast<int64_t>(c.top),
           std::min<int64_t>(c.height, static_cast<int64_t>(c.bottom + 0.999)),
           c.resized_height, c.first_y, c.out_height, c.antialias});
}

// The definition in resize.h, one byte at a time.
uint8_t WeightedSum(const AxisFilter& f, int64_t i,
                    const std::vector<uint8_t>& x) {
  const int32_t n = f.taps(i);
  uint32_t narrow = 128 + n / 2;
  uint32_t wide = 32768;
  for (int32_t k = 0; k < n; ++k) {
    narrow += (uint32_t{x[k]} * f.weights(i)[k]) >> 8;
    wide += uint32_t{x[k]} * f.weights(i)[k];
  }
  return static_cast<uint8_t>(n <= 128 ? narrow >> 8 : wide >> 16);
}

std::vector<uint8_t> ByDefinition(const Case& c,
                                  const std::vector<uint8_t>& source) {
  AxisFilter fx, fy;
  BuildFilters(c, fx, fy);
  const int64_t row = c.width * c.channels;
  std::vector<uint8_t> tall(c.out_height * row);
  std::vector<uint8_t> taps;
  for (int64_t y = 0; y < c.out_height; ++y) {
    for (int64_t b = 0; b < row; ++b) {
      taps.clear();
      for (int32_t k = 0; k < fy.taps(y); ++k) {
        taps.push_back(source[(fy.start(y) + k) * row + b]);
      }
      tall[y * row + b] = WeightedSum(fy, y, taps);
    }
  }
  std::vector<uint8_t> out(c.out_height * c.out_width * c.channels);
  for (int64_t y = 0; y < c.out_height; ++y) {
    for (int64_t x = 0; x < c.out_width; ++x) {
      for (int ch = 0; ch < c.channels; ++ch) {
        taps.clear();
        for (int32_t k = 0; k < fx.taps(x); ++k) {
          taps.push_back(tall[y * row + (fx.start(x) + k) * c.channels + ch]);
        }
        const int64_t to = c.flip ? c.out_width - 1 - x : x;
        out[(y * c.out_width + to) * c.channels + ch] =
            WeightedSum(fx, x, taps);
      }
    }
  }
  return out;
}

std::vector<uint8_t> ByKernel(const Case& c,
                              const std::vector<uint8_t>& source) {
  AxisFilter fx, fy;
  BuildFilters(c, fx, fy);
  // A guard on both sides of every row: nothing else may be written.
  constexpr int64_t kGuard = 40;
  const int64_t row = c.out_width * c.channels;
  const int64_t stride = row + kGuard;
  std::vector<uint8_t> padded(kGuard + c.out_height * stride, 0xA5);
  ResizeScratch scratch;
  ResizeJob job;
  // Hand over only what the filters read.
  job.source_left = fx.source_begin();
  job.source_top = fy.source_begin();
  job.source =
      source.data() + (job.source_top * c.width + job.source_left) * c.channels;
  job.source_stride = c.width * c.channels;
  job.x = &fx;
  job.y = &fy;
  job.channels = c.channels;
  job.out = padded.data() + kGuard;
  job.out_stride = stride;
  job.flip = c.flip;
  EXPECT_TRUE(ResizePixels(job, scratch));
  std::vector<uint8_t> out;
  for (int64_t y = 0; y < c.out_height; ++y) {
    const uint8_t* r = padded.data() + kGuard + y * stride;
    EXPECT_TRUE(
        std::all_of(r - kGuard, r, [](uint8_t b) { return b == 0xA5; }));
    out.insert(out.end(), r, r + row);
  }
  EXPECT_TRUE(std::all_of(padded.end() - kGuard, padded.end(),
                          [](uint8_t b) { return b == 0xA5; }));
  return out;
}

std::vector<Case> Cases() {
  std::vector<Case> cases = {
      // A photograph's crop, whole numbers.
      {300, 280, 0, 0, 300, 280, 224, 224, 0, 0, 224, 224, 3, true, false},
      {300, 280, 0, 0, 300, 280, 224, 224, 0, 0, 224, 224, 3, true, true},
      {300, 280, 0, 0, 300, 280, 224, 224, 0, 0, 224, 224, 3, false, true},
      // At half the size the box has fractions.
      {251, 188, 3.5, 7.0, 240.5, 187.5, 224, 100, 0, 0, 224, 100, 3, true,
       true},
      // The middle of a larger result.
      {500, 375, 0, 0, 500, 375, 341, 256, 58, 16, 224, 224, 3, true, false},
      // Grey, enlarged, one pixel, one row, one column.
      {28, 28, 0, 0, 28, 28, 64, 65, 0, 0, 64, 65, 1, true, true},
      {1, 1, 0, 0, 1, 1, 17, 9, 0, 0, 17, 9, 3, true, false},
      {100, 1, 0, 0, 100, 1, 7, 3, 0, 0, 7, 3, 3, true, false},
      {1, 100, 0, 0, 1, 100, 3, 7, 0, 0, 3, 7, 1, true, false},
      // More than 128 taps.
      {700, 5, 0, 0, 700, 5, 4, 4, 0, 0, 4, 4, 3, true, true},
      {5, 700, 0, 0, 5, 700, 4, 4, 0, 0, 4, 4, 3, true, false},
      {300, 3, 0, 0, 300, 3, 4, 70, 0, 0, 4, 70, 1, true, false},
  };
  CounterRandom random(11, 0);
  for (int i = 0; i < 60; ++i) {
    Case c;
    c.width = 1 + random.Below(200);
    c.height = 1 + random.Below(200);
    c.left = random.Below(2 * c.width) / 2.0;
    c.top = random.Below(4 * c.height) / 4.0;
    c.right = c.left + random.Uniform(0.25, c.width - c.left);
    c.bottom = c.top + random.Uniform(0.25, c.height - c.top);
    c.right = std::min<double>(c.right, c.width);
    c.bottom = std::min<double>(c.bottom, c.height);
    c.resized_width = 1 + random.Below(150);
    c.resized_height = 1 + random.Below(150);
    c.first_x = random.Below(c.resized_width);
    c.first_y = random.Below(c.resized_height);
    c.out_width = 1 + random.Below(c.resized_width - c.first_x);
    c.out_height = 1 + random.Below(c.resized_height - c.first_y);
    c.channels = random.Below(2) == 0 ? 1 : 3;
    c.antialias = random.Below(4) != 0;
    c.flip = random.Below(2) == 0;
    cases.push_back(c);
  }
  return cases;
}

// Every instruction set of this CPU, and the portable code.
TEST(ResizePixels, GivesTheDefinedBytesOnEveryInstructionSet) {
  const std::vector<Case> cases = Cases();
  int targets = 0;
  // All the bits that resize.cc may have been compiled for; those that this CPU
  // lacks are masked by Highway.
  const int64_t supported = hwy::SupportedTargets();
  for (int64_t target :
       {HWY_SCALAR, HWY_EMU128, HWY_SSE4, HWY_AVX2, HWY_AVX3, HWY_NEON}) {
    const bool portable = target == HWY_SCALAR || target == HWY_EMU128;
    if (!portable && (supported & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    SCOPED_TRACE(hwy::TargetName(target));
    ++targets;
    for (size_t i = 0; i < cases.size(); ++i) {
      const Case& c = cases[i];
      const std::vector<uint8_t> source =
          Noise(c.width * c.height * c.channels, i);
      ASSERT_EQ(ByKernel(c, source), ByDefinition(c, source)) << "case " << i;
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
  EXPECT_GE(targets, 2);
}

TEST(ResizePixels, KeepsAConstantImage) {
  for (int value : {0, 1, 127, 254, 255}) {
    for (const Case& c : Cases()) {
      std::vector<uint8_t> source(
          c.width * c.height * c.channels + kResizeReadSlack,
          static_cast<uint8_t>(value));
      for (uint8_t b : ByKernel(c, source)) ASSERT_EQ(b, value);
    }
  }
}

TEST(AxisFilter, WeightsSumToOne) {
  AxisFilter f;
  for (int64_t resized : {1, 3, 10, 224, 500}) {
    f.Build({2.25, 600.5, 2, 601, resized, 0, resized, true});
    for (int64_t i = 0; i < f.count(); ++i) {
      int64_t sum = 0;
      for (int32_t k = 0; k < f.taps(i); ++k) sum += f.weights(i)[k];
      EXPECT_TRUE(sum == 65536 || (f.taps(i) == 1 && sum == 65535));
      EXPECT_GE(f.start(i), 2);
      EXPECT_LE(f.start(i) + f.taps(i), 601);
    }
  }
}

// From torch 2.11: interpolate(arange(n).view(1, 1, 1, n).float(), (1,
// resized), mode="nearest"). Of 2 places made into 82 the 42nd is still the
// first, for 2 / 82 rounds down in float32.
TEST(AxisFilter, TakesTheNearestPlaceAsTorchDoes) {
  auto places = [](int64_t n, int64_t resized) {
    AxisFilter f;
    f.BuildNearest(
        {.begin = 0, .end = double(n), .resized = resized, .count = resized});
    std::vector<int64_t> starts;
    for (int64_t i = 0; i < f.count(); ++i) {
      EXPECT_EQ(f.taps(i), 1);
      starts.push_back(f.start(i));
    }
    return starts;
  };
  EXPECT_EQ(places(7, 3), (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(places(5, 11),
            (std::vector<int64_t>{0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4}));
  EXPECT_EQ(places(10, 15), (std::vector<int64_t>{0, 0, 1, 2, 2, 3, 4, 4, 5, 6,
                                                  6, 7, 8, 8, 9}));
  EXPECT_EQ(places(2, 82)[41], 0);
  EXPECT_EQ(places(2, 82)[42], 1);
  const std::vector<int64_t> wide = places(375, 224);
  EXPECT_EQ((std::vector<int64_t>(wide.begin() + 100, wide.begin() + 106)),
            (std::vector<int64_t>{167, 169, 170, 172, 174, 175}));
  EXPECT_EQ(wide.back(), 373);
  // A window of a box.
  AxisFilter f;
  f.BuildNearest(
      {.begin = 20, .end = 27, .resized = 3, .first = 1, .count = 2});
  EXPECT_EQ(f.start(0), 22);
  EXPECT_EQ(f.start(1), 24);
  EXPECT_EQ(f.source_begin(), 22);
  EXPECT_EQ(f.source_end(), 25);
}

TEST(AxisFilter, StopsAtTheBox) {
  AxisFilter f;
  f.Build({100, 200, 100, 200, 50, 0, 50, true});
  EXPECT_EQ(f.source_begin(), 100);
  EXPECT_EQ(f.source_end(), 200);
  // A window reads only what it needs.
  f.Build({100, 200, 100, 200, 50, 20, 10, true});
  EXPECT_EQ(f.source_begin(), 139);
  EXPECT_EQ(f.source_end(), 161);
}

}  // namespace
}  // namespace millrace::augment
