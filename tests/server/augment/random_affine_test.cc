#include "server/augment/random_affine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "server/augment/random.h"
#include "server/augment/warp.h"

namespace millrace::augment {
namespace {

class Log : public ParameterLog {
 public:
  void Add(uint32_t, std::string what) override { line = what; }
  std::string line;
};

constexpr int kSamples = 20000;

// Of `samples`, each meant to be uniform on [low, high]: the Kolmogorov-Smirnov
// distance, times sqrt(n). Above 1.95 in one of 1,000 sets.
double Distance(std::vector<double> samples, double low, double high) {
  std::sort(samples.begin(), samples.end());
  const double n = static_cast<double>(samples.size());
  double worst = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const double at = (samples[i] - low) / (high - low);
    worst = std::max({worst, at - i / n, (i + 1) / n - at});
  }
  return worst * std::sqrt(n);
}

// Turn, scale and shear of a map, as a person would read them off it.
double Angle(const AffineMap& m) { return std::atan2(m.yx, m.xx) * 180 / M_PI; }

TEST(RandomRotation, DrawsTheAngleUniformlyAndCounterClockwise) {
  RandomAffineOptions options;
  options.rotation = true;
  options.degrees_min = -30;
  options.degrees_max = 75;
  std::vector<double> angles;
  for (uint64_t key = 0; key < kSamples; ++key) {
    AffinePair maps;
    ASSERT_TRUE(DrawAffine(options, key, {40, 30}, nullptr, maps));
    angles.push_back(-Angle(maps.forward));
    EXPECT_NEAR(
        maps.forward.xx * maps.forward.yy - maps.forward.xy * maps.forward.yx,
        1, 1e-12);
    // The centre stays.
    double x = 20, y = 15;
    maps.forward.Apply(x, y);
    EXPECT_NEAR(x, 20, 1e-9);
    EXPECT_NEAR(y, 15, 1e-9);
  }
  EXPECT_LT(Distance(angles, -30, 75), 1.95);
}

TEST(RandomAffine, DrawsEachParameterUniformly) {
  RandomAffineOptions options;
  options.scale_min = 0.5;
  options.scale_max = 1.75;
  std::vector<double> scales;
  for (uint64_t key = 0; key < kSamples; ++key) {
    AffinePair maps;
    ASSERT_TRUE(DrawAffine(options, key, {64, 64}, nullptr, maps));
    scales.push_back(maps.forward.xx);
    EXPECT_EQ(maps.forward.xx, maps.forward.yy);
  }
  EXPECT_LT(Distance(scales, 0.5, 1.75), 1.95);

  options = {};
  options.shear_x_min = -40;
  options.shear_x_max = 10;
  std::vector<double> shears;
  for (uint64_t key = 0; key < kSamples; ++key) {
    AffinePair maps;
    ASSERT_TRUE(DrawAffine(options, key, {64, 64}, nullptr, maps));
    shears.push_back(std::atan(-maps.forward.xy) * 180 / M_PI);
    EXPECT_EQ(maps.forward.yx, 0);
  }
  EXPECT_LT(Distance(shears, -40, 10), 1.95);

  options = {};
  options.shear_y_min = 5;
  options.shear_y_max = 20;
  shears.clear();
  for (uint64_t key = 0; key < kSamples; ++key) {
    AffinePair maps;
    ASSERT_TRUE(DrawAffine(options, key, {64, 64}, nullptr, maps));
    shears.push_back(std::atan(-maps.forward.yx) * 180 / M_PI);
    EXPECT_EQ(maps.forward.xy, 0);
  }
  EXPECT_LT(Distance(shears, 5, 20), 1.95);
}

// int(round(uniform(-d, d))) with d = 0.1 * 64 = 6.4 and 0.05 * 70 = 3.5: the
// outermost shifts are as likely as what is left of their pixel.
TEST(RandomAffine, ShiftsByWholePixels) {
  RandomAffineOptions options;
  options.translate_x = 0.1;
  options.translate_y = 0.05;
  std::vector<int> x(15), y(9);
  for (uint64_t key = 0; key < kSamples; ++key) {
    AffinePair maps;
    ASSERT_TRUE(DrawAffine(options, key, {64, 70}, nullptr, maps));
    EXPECT_EQ(maps.forward.x0, std::floor(maps.forward.x0));
    ASSERT_LE(std::abs(maps.forward.x0), 6);
    ASSERT_LE(std::abs(maps.forward.y0), 4);
    ++x[static_cast<int>(maps.forward.x0) + 7];
    ++y[static_cast<int>(maps.forward.y0) + 4];
  }
  auto chi_square = [](const std::vector<int>& counts, int offset, double d) {
    double sum = 0;
    for (int i = 0; i < static_cast<int>(counts.size()); ++i) {
      const double low = std::max(-d, i - offset - 0.5);
      const double high = std::min(d, i - offset + 0.5);
      const double expected = kSamples * std::max(0.0, high - low) / (2 * d);
      if (expected == 0) {
        EXPECT_EQ(counts[i], 0);
        continue;
      }
      sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    return sum;
  };
  EXPECT_LT(chi_square(x, 7, 6.4), 32.9);  // 12 degrees of freedom, 0.1 %
  EXPECT_LT(chi_square(y, 4, 3.5), 22.5);  // 6
}

TEST(RandomAffine, IsAppliedAsOftenAsItsProbabilitySays) {
  RandomAffineOptions options;
  options.rotation = true;
  options.degrees_min = options.degrees_max = 10;
  for (double p : {0.0, 0.3, 1.0}) {
    options.probability = p;
    int applied = 0;
    for (uint64_t key = 0; key < kSamples; ++key) {
      AffinePair maps;
      applied += DrawAffine(options, key, {8, 8}, nullptr, maps);
    }
    EXPECT_NEAR(applied, p * kSamples, p == 0 || p == 1 ? 0 : 260) << p;
  }
}

TEST(RandomAffine, SaysWhatItHasDrawn) {
  RandomAffineOptions options;
  options.degrees_min = options.degrees_max = 10;
  options.shear_x_min = options.shear_x_max = 2;
  Log log;
  AffinePair maps;
  ASSERT_TRUE(DrawAffine(options, 1, {8, 8}, &log, maps));
  EXPECT_EQ(log.line, "angle 10, translate 0 0, scale 1, shear 2 0");
  options.rotation = true;
  ASSERT_TRUE(DrawAffine(options, 1, {8, 8}, &log, maps));
  EXPECT_EQ(log.line, "angle 10");
  options.probability = 0;
  ASSERT_FALSE(DrawAffine(options, 1, {8, 8}, &log, maps));
  EXPECT_EQ(log.line, "not applied");
}

TEST(RandomAffine, ChangesTheImageInPlaceAndNothingAroundIt) {
  std::vector<uint8_t> pixels(20 * 30 * 3);
  CounterRandom random(1, 1);
  for (uint8_t& b : pixels) b = static_cast<uint8_t>(random.Below(256));
  const std::vector<uint8_t> before = pixels;
  // The middle 10 x 16 of 20 x 30.
  ImageSpan image;
  image.data = pixels.data() + (5 * 30 + 7) * 3;
  image.height = 10;
  image.width = 16;
  image.channels = 3;
  image.stride = 30 * 3;
  RandomAffineOptions options;
  options.rotation = true;
  options.degrees_min = options.degrees_max = 45;
  options.fill = FillColor(50);
  AlignedBuffer scratch;
  const auto op = MakeRandomAffine(options);
  ASSERT_TRUE(op->Apply(image, {.sample_key = 1, .scratch = &scratch}).ok());
  EXPECT_LE(static_cast<int64_t>(scratch.capacity()),
            op->ScratchBytes({16, 10}, 3) + 64);
  // What WarpPixels makes of the cut-out.
  std::vector<uint8_t> cut(10 * 16 * 3 + kWarpReadSlack), want(10 * 16 * 3);
  for (int y = 0; y < 10; ++y) {
    std::copy_n(&before[((y + 5) * 30 + 7) * 3], 16 * 3, &cut[y * 16 * 3]);
  }
  WarpJob job;
  job.from = cut.data();
  job.size = {16, 10};
  job.inverse = MakeAffine({.degrees = -45}, {16, 10}).inverse;
  job.fill = FillColor(50);
  job.to = want.data();
  job.to_stride = 16 * 3;
  WarpPixels(job);
  for (int y = 0; y < 20; ++y) {
    for (int x = 0; x < 30 * 3; ++x) {
      const bool inside = y >= 5 && y < 15 && x >= 21 && x < 21 + 48;
      ASSERT_EQ(pixels[y * 90 + x],
                inside ? want[(y - 5) * 48 + x - 21] : before[y * 90 + x]);
    }
  }
}

}  // namespace
}  // namespace millrace::augment
