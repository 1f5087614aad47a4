#include "server/augment/warp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "hwy/targets.h"
#include "server/augment/random.h"
#include "server/decode/image_decoder.h"

namespace millrace::augment {
namespace {

using Bytes = std::vector<uint8_t>;

struct Image {
  Size size;
  int channels = 3;
  Bytes pixels;
};

Image Noise(Size size, int channels, uint64_t key) {
  Image image = {size, channels, Bytes(size.width * size.height * channels)};
  CounterRandom random(key, 0);
  for (uint8_t& b : image.pixels) b = static_cast<uint8_t>(random.Below(256));
  return image;
}

struct Look {
  bool nearest = true;
  FillColor fill;
  bool fill_given = true;
};

// Into rows with a guard on both sides: nothing else may be written.
Image Warp(const Image& in, const AffineMap& inverse, const Look& look) {
  constexpr int64_t kGuard = 24;
  const int64_t row = in.size.width * in.channels;
  const int64_t stride = row + kGuard;
  Bytes from = in.pixels;
  from.resize(from.size() + kWarpReadSlack);
  Bytes to(kGuard + in.size.height * stride, 0xA5);
  WarpJob job;
  job.from = from.data();
  job.size = in.size;
  job.channels = in.channels;
  job.inverse = inverse;
  job.nearest = look.nearest;
  job.fill = look.fill;
  job.fill_given = look.fill_given;
  job.to = to.data() + kGuard;
  job.to_stride = stride;
  WarpPixels(job);
  Image out = {in.size, in.channels, {}};
  for (int64_t y = 0; y < in.size.height; ++y) {
    const uint8_t* r = to.data() + kGuard + y * stride;
    for (int64_t i = 1; i <= kGuard; ++i) EXPECT_EQ(r[-i], 0xA5);
    out.pixels.insert(out.pixels.end(), r, r + row);
  }
  for (int64_t i = 1; i <= kGuard; ++i) EXPECT_EQ(to[to.size() - i], 0xA5);
  return out;
}

// The definition in warp.h, in floating point. `tie` is how near a point lies
// to where its result jumps.
double Reference(const Image& in, const AffineMap& inverse, const Look& look,
                 int64_t column, int64_t row, int channel, double* tie) {
  double x = static_cast<double>(column) + 0.5;
  double y = static_cast<double>(row) + 0.5;
  inverse.Apply(x, y);
  x -= 0.5;
  y -= 0.5;
  const double fill = look.fill.of(channel);
  auto inside = [&](double px, double py) {
    return px >= 0 && px < in.size.width && py >= 0 && py < in.size.height;
  };
  auto pixel = [&](double px, double py) -> double {
    return in.pixels[(static_cast<int64_t>(py) * in.size.width +
                      static_cast<int64_t>(px)) *
                         in.channels +
                     channel];
  };
  if (look.nearest) {
    *tie = std::min(std::abs(x + 0.5 - std::round(x + 0.5)),
                    std::abs(y + 0.5 - std::round(y + 0.5)));
    const double px = std::floor(x + 0.5);
    const double py = std::floor(y + 0.5);
    return inside(px, py) ? pixel(px, py) : fill;
  }
  *tie = 1;
  double sum = 0, share = 0;
  for (int k = 0; k < 4; ++k) {
    const double px = std::floor(x) + (k & 1);
    const double py = std::floor(y) + (k >> 1);
    const double weight = (1 - std::abs(x - px)) * (1 - std::abs(y - py));
    if (!inside(px, py)) continue;
    sum += weight * pixel(px, py);
    share += weight;
  }
  if (!look.fill_given) return share > 0 ? sum : fill;
  return share * (sum - fill) + fill;
}

void CompareWithReference() {
  CounterRandom random(3, 0);
  int64_t compared = 0;
  for (int n = 0; n < 400; ++n) {
    const Size size = {1 + static_cast<int64_t>(random.Below(40)),
                       1 + static_cast<int64_t>(random.Below(40))};
    const int channels = std::vector<int>{1, 3, 3, 4}[random.Below(4)];
    const Image in = Noise(size, channels, n);
    AffineParameters p;
    p.degrees = random.Uniform(-400, 400);
    p.translate_x = random.Uniform(-20, 20);
    p.translate_y = random.Uniform(-20, 20);
    p.scale = random.Below(4) == 0 ? random.Uniform(0.01, 20)
                                   : random.Uniform(0.5, 2);
    p.shear_x = random.Uniform(-1, 1);
    p.shear_y = random.Uniform(-1, 1);
    p.about_corner = random.Below(2) == 0;
    Look look;
    look.nearest = random.Below(2) == 0;
    if (random.Below(2) == 0) {
      const uint8_t values[4] = {200, 3, 77, 140};
      look.fill = FillColor(values, channels);
    } else {
      look.fill_given = random.Below(2) == 0;
    }
    const AffineMap inverse = MakeAffine(p, size).inverse;
    const Image out = Warp(in, inverse, look);
    for (int64_t y = 0; y < size.height; ++y) {
      for (int64_t x = 0; x < size.width; ++x) {
        for (int c = 0; c < channels; ++c) {
          double tie = 0;
          const double want = Reference(in, inverse, look, x, y, c, &tie);
          if (tie < 1e-6) continue;
          ++compared;
          const double got = out.pixels[(y * size.width + x) * channels + c];
          // Weights in units of 1/4096 and the rounding.
          ASSERT_NEAR(got, want, look.nearest ? 0 : 0.8)
              << "image " << n << ", " << x << " " << y << " " << c;
        }
      }
    }
  }
  EXPECT_GT(compared, 300000);
}

TEST(WarpPixels, TakesWhatTheInverseMapSays) { CompareWithReference(); }

// Runs `test` with every instruction set of this CPU and the portable code.
void OnEveryTarget(const std::function<void()>& test) {
  const int64_t supported = hwy::SupportedTargets();
  int targets = 0;
  for (int64_t target :
       {HWY_SCALAR, HWY_EMU128, HWY_SSE4, HWY_AVX2, HWY_AVX3, HWY_NEON}) {
    const bool portable = target == HWY_SCALAR || target == HWY_EMU128;
    if (!portable && (supported & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    SCOPED_TRACE(hwy::TargetName(target));
    ++targets;
    test();
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
  EXPECT_GE(targets, 2);
}

TEST(WarpPixels, GivesTheSameBytesOnEveryInstructionSet) {
  Bytes first;
  OnEveryTarget([&] {
    CompareWithReference();
    Bytes all;
    for (int n = 0; n < 60; ++n) {
      const Image in = Noise({1 + n, 61 - n}, 3, n);
      AffineParameters p;
      p.degrees = 6.1 * n;
      p.scale = 0.4 + 0.03 * n;
      const Image out = Warp(in, MakeAffine(p, in.size).inverse,
                             {.nearest = n % 4 == 0, .fill = FillColor(99)});
      all.insert(all.end(), out.pixels.begin(), out.pixels.end());
    }
    if (first.empty()) first = all;
    EXPECT_EQ(all, first);
  });
}

TEST(WarpPixels, QuarterTurnsAndShiftsMoveWholePixels) {
  for (int channels : {1, 3}) {
    for (bool nearest : {true, false}) {
      const Image in = Noise({9, 9}, channels, 5);
      Look look;
      look.nearest = nearest;
      auto at = [&](const Image& image, int64_t x, int64_t y) {
        return Bytes(image.pixels.begin() + (y * 9 + x) * channels,
                     image.pixels.begin() + (y * 9 + x + 1) * channels);
      };
      const Image same = Warp(in, MakeAffine({}, in.size).inverse, look);
      EXPECT_EQ(same.pixels, in.pixels);
      const Image quarter =
          Warp(in, MakeAffine({.degrees = 90}, in.size).inverse, look);
      const Image half =
          Warp(in, MakeAffine({.degrees = -180}, in.size).inverse, look);
      const Image shifted = Warp(
          in,
          MakeAffine({.translate_x = 2, .translate_y = -3}, in.size).inverse,
          look);
      for (int64_t y = 0; y < 9; ++y) {
        for (int64_t x = 0; x < 9; ++x) {
          // Clockwise: the first row becomes the last column.
          EXPECT_EQ(at(quarter, 8 - y, x), at(in, x, y));
          EXPECT_EQ(at(half, 8 - x, 8 - y), at(in, x, y));
          EXPECT_EQ(at(shifted, x, y), x >= 2 && y < 6 ? at(in, x - 2, y + 3)
                                                       : Bytes(channels, 0));
        }
      }
    }
  }
}

TEST(WarpPixels, StandsMapsThatLeaveNothingOfTheImage) {
  const Image in = Noise({17, 11}, 3, 1);
  for (double scale : {1e-300, 1e-12, 1e-6, 1e6, 1e12}) {
    for (double shear : {0.0, 57.0, -1e9}) {
      for (bool nearest : {true, false}) {
        AffineParameters p;
        p.degrees = 31;
        p.scale = scale;
        p.shear_x = shear;
        p.translate_x = -1e6;
        Look look;
        look.nearest = nearest;
        look.fill = FillColor(9);
        const Image out = Warp(in, MakeAffine(p, in.size).inverse, look);
        if (scale < 1) {
          EXPECT_EQ(out.pixels, Bytes(17 * 11 * 3, 9));
        }
      }
    }
  }
}

Image Golden(const std::string& name) {
  std::ifstream file("tests/testdata/geometry/" + name + ".png",
                     std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  const Bytes bytes{std::istreambuf_iterator<char>(file),
                    std::istreambuf_iterator<char>()};
  decode::ImageDecoder decoder;
  const auto header = decoder.Open(bytes, false);
  EXPECT_TRUE(header.ok()) << header.status();
  const auto decoded =
      decoder.Decode({1, 0, 0, header->width, header->height, 3});
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  Image image = {{header->width, header->height}, 3, {}};
  for (int64_t y = 0; y < header->height; ++y) {
    const uint8_t* row = decoded->data + y * decoded->stride;
    image.pixels.insert(image.pixels.end(), row, row + header->width * 3);
  }
  return image;
}

double Tangent(double degrees) { return std::tan(degrees * M_PI / 180); }

// tests/testdata/geometry/make_golden.py says how these were made.
TEST(WarpPixels, AgreesWithTorchvision) {
  struct Case {
    std::string name;
    AffineParameters parameters;
    Look look;
  };
  const uint8_t values[3] = {124, 116, 104};
  const FillColor colour(values, 3);
  const std::vector<Case> cases = {
      {"rotate_nearest", {.degrees = -27.5}, {true, colour, true}},
      {"rotate_bilinear", {.degrees = 72.25}, {false, FillColor(), true}},
      {"affine_nearest",
       {.degrees = 33,
        .translate_x = 5,
        .translate_y = -4,
        .scale = 0.7,
        .shear_x = Tangent(12),
        .shear_y = Tangent(-7)},
       {true, colour, true}},
      {"affine_bilinear",
       {.degrees = -160,
        .translate_x = -3,
        .translate_y = 6,
        .scale = 1.6,
        .shear_x = Tangent(-20),
        .shear_y = Tangent(9)},
       {false, colour, true}},
      {"shear_x",
       {.shear_x = 0.627, .about_corner = true},
       {false, FillColor(), false}},
      {"shear_y",
       {.shear_y = -0.363, .about_corner = true},
       {true, FillColor(), false}},
  };
  const Image source = Golden("source");
  for (const Case& c : cases) {
    const Image want = Golden(c.name);
    const Image got =
        Warp(source, MakeAffine(c.parameters, source.size).inverse, c.look);
    ASSERT_EQ(got.pixels.size(), want.pixels.size());
    size_t off = 0;
    for (size_t i = 0; i < want.pixels.size(); ++i) {
      off +=
          std::abs(got.pixels[i] - want.pixels[i]) > (c.look.nearest ? 0 : 1);
    }
    EXPECT_LE(off * 1000, want.pixels.size()) << c.name;
  }
}

}  // namespace
}  // namespace millrace::augment
