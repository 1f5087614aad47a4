// RandomResizedCrop and flips against torchvision's published algorithm.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "server/augment/geometry.h"
#include "tests/server/augment/statistics.h"

namespace millrace::augment {
namespace {

uint64_t Key(uint64_t i) { return (i + 1) * 0x9E3779B97F4A7C15ull; }

// RandomResizedCrop.make_params of torchvision 0.26 with another generator and
// the C library's functions: left, top, width, height.
std::array<double, 4> TorchvisionCrop(double width, double height,
                                      double scale_min, double scale_max,
                                      std::mt19937_64& generator,
                                      int64_t& fallbacks) {
  auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(generator);
  };
  auto below = [&](double n) {
    return static_cast<double>(std::uniform_int_distribution<int64_t>(
        0, static_cast<int64_t>(n) - 1)(generator));
  };
  for (int i = 0; i < 10; ++i) {
    const double area = width * height * uniform(scale_min, scale_max);
    const double ratio = std::exp(uniform(std::log(3. / 4), std::log(4. / 3)));
    const double w = std::nearbyint(std::sqrt(area * ratio));
    const double h = std::nearbyint(std::sqrt(area / ratio));
    if (0 < w && w <= width && 0 < h && h <= height) {
      const double top = below(height - h + 1);
      return {below(width - w + 1), top, w, h};
    }
  }
  ++fallbacks;
  double w = width, h = height;
  if (width / height < 3. / 4) {
    h = std::nearbyint(w / (3. / 4));
  } else if (width / height > 4. / 3) {
    w = std::nearbyint(h * (4. / 3));
  }
  return {std::floor((width - w) / 2), std::floor((height - h) / 2), w, h};
}

TEST(RandomCropRect, IsDistributedAsTorchvisions) {
  struct Case {
    Size image;
    double scale_min, scale_max;
    bool falls_back;  // sometimes
  };
  for (const Case& c : std::vector<Case>{{{500, 375}, 0.08, 1, false},
                                         {{333, 500}, 0.35, 1, false},
                                         {{48, 32}, 0.08, 1, false},
                                         {{200, 30}, 0.08, 1, true},
                                         {{31, 77}, 0.5, 1, true},
                                         {{7, 5}, 0.08, 1, false}}) {
    constexpr int kDraws = 20000;
    std::mt19937_64 generator(11);
    std::vector<double> ours[6], theirs[6];
    auto add = [](std::vector<double>(&to)[6], double left, double top,
                  double w, double h) {
      to[0].push_back(left);
      to[1].push_back(top);
      to[2].push_back(w);
      to[3].push_back(h);
      to[4].push_back(w * h);
      to[5].push_back(w / h);
    };
    CropDistribution distribution;
    distribution.scale_min = c.scale_min;
    distribution.scale_max = c.scale_max;
    int64_t fallbacks = 0;
    for (int i = 0; i < kDraws; ++i) {
      CounterRandom random(Key(i), 1);
      const Rect r = RandomCropRect(c.image, distribution, random);
      add(ours, r.left, r.top, r.width, r.height);
      const auto [left, top, w, h] =
          TorchvisionCrop(c.image.width, c.image.height, c.scale_min,
                          c.scale_max, generator, fallbacks);
      add(theirs, left, top, w, h);
    }
    EXPECT_EQ(fallbacks > kDraws / 100, c.falls_back) << fallbacks;
    for (int k = 0; k < 6; ++k) {
      EXPECT_LT(TwoSampleDistance(ours[k], theirs[k]), kKolmogorovLimit)
          << "measure " << k << " of " << c.image.width << " x "
          << c.image.height;
    }
  }
}

}  // namespace
}  // namespace millrace::augment
