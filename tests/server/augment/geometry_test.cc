#include "server/augment/geometry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace millrace::augment {
namespace {

// torchvision's published definition: target area uniform in scale x area,
// ratio log-uniform. On a large image the drawn rectangle that fits follows it
// given that it fits; here all sizes fit, so nothing is conditioned.
TEST(RandomCropRect, AreaIsUniformAndRatioIsLogUniform) {
  const Size image = {4000, 4000};
  CropDistribution d;
  d.scale_min = 0.08;
  d.scale_max = 0.5;  // sqrt(0.5 * 4/3) < 1: always fits at the first try
  constexpr int kDraws = 40000;
  std::vector<int> area_bins(10);
  std::vector<int> ratio_bins(10);
  std::vector<int> left_bins(10);
  for (int i = 0; i < kDraws; ++i) {
    CounterRandom random(i, 3);
    const Rect r = RandomCropRect(image, d, random);
    ASSERT_GE(r.left, 0);
    ASSERT_GE(r.top, 0);
    ASSERT_LE(r.left + r.width, image.width);
    ASSERT_LE(r.top + r.height, image.height);
    const double area = static_cast<double>(r.width) * r.height / 16e6;
    const double log_ratio = std::log(static_cast<double>(r.width) / r.height);
    auto bin = [](double u) {
      return std::min(9, std::max(0, static_cast<int>(u * 10)));
    };
    ++area_bins[bin((area - 0.08) / 0.42)];
    ++ratio_bins[bin((log_ratio - d.log_ratio_min) /
                     (d.log_ratio_max - d.log_ratio_min))];
    ++left_bins[bin(r.left / static_cast<double>(4000 - r.width + 1))];
  }
  for (const auto* bins : {&area_bins, &ratio_bins, &left_bins}) {
    double chi_square = 0;
    for (int n : *bins) {
      chi_square += (n - kDraws / 10.0) * (n - kDraws / 10.0) / (kDraws / 10.0);
    }
    EXPECT_LT(chi_square, 27.9);  // 9 degrees of freedom, p = 0.001
  }
}

TEST(RandomCropRect, FallsBackToTheLargestCentredCropOfAnAllowedRatio) {
  CounterRandom random(1, 1);
  // Much wider than any allowed ratio: no try can fit with scale 1.
  CropDistribution d;
  d.scale_min = d.scale_max = 1.0;
  EXPECT_EQ(RandomCropRect({1000, 30}, d, random), (Rect{480, 0, 40, 30}));
  EXPECT_EQ(RandomCropRect({30, 1000}, d, random), (Rect{0, 480, 30, 40}));
  EXPECT_EQ(RandomCropRect({1, 1}, {}, random), (Rect{0, 0, 1, 1}));
}

TEST(ShortSideSize, RoundsTheLongSideDownAsTorchvision) {
  EXPECT_EQ(ShortSideSize({500, 375}, 256), (Size{341, 256}));
  EXPECT_EQ(ShortSideSize({375, 500}, 256), (Size{256, 341}));
  EXPECT_EQ(ShortSideSize({256, 256}, 256), (Size{256, 256}));
  EXPECT_EQ(ShortSideSize({1, 65535}, 2), (Size{2, 131070}));
}

TEST(CenterRect, RoundsTiesToEvenAsTorchvision) {
  EXPECT_EQ(CenterRect({341, 256}, {224, 224}), (Rect{58, 16, 224, 224}));
  EXPECT_EQ(CenterRect({225, 227}, {224, 224}), (Rect{0, 2, 224, 224}));
  EXPECT_EQ(CenterRect({224, 224}, {224, 224}), (Rect{0, 0, 224, 224}));
}

TEST(CenterRect, BeginsOutsideASmallerImage) {
  EXPECT_EQ(CenterRect({100, 301}, {224, 224}), (Rect{-62, 38, 224, 224}));
  EXPECT_EQ(CenterRect({101, 224}, {224, 224}), (Rect{-61, 0, 224, 224}));
}

}  // namespace
}  // namespace millrace::augment
