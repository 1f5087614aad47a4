#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "server/augment/color_functions.h"
#include "server/augment/color_jitter.h"
#include "server/augment/gaussian_blur.h"
#include "server/augment/grayscale.h"
#include "server/augment/random_erasing.h"
#include "tests/server/augment/padded_image.h"
#include "tests/server/augment/recording_log.h"
#include "tests/server/augment/statistics.h"

namespace millrace::augment {
namespace {

using Bytes = std::vector<uint8_t>;

uint64_t Key(uint64_t i) { return (i + 1) * 0x9E3779B97F4A7C15ull; }

// What the op says that it drew for a sample; an image of one pixel.
std::string Draws(const PixelOp& op, uint64_t key, RecordingLog& log) {
  uint8_t pixel[3] = {10, 200, 90};
  AlignedBuffer scratch;
  EXPECT_TRUE(op.Apply({pixel, 1, 1, 3, 3}, {key, &scratch, &log}).ok());
  return log.what();
}

Bytes Applied(const PixelOp& op, const Bytes& pixels, int64_t height,
              int64_t width, int channels, uint64_t key) {
  PaddedImage image(height, width, channels, 16);
  image.FillPixels(pixels);
  AlignedBuffer scratch;
  EXPECT_TRUE(op.Apply(image.span(), {key, &scratch, nullptr}).ok());
  image.ExpectGuardsIntact();
  EXPECT_LE(static_cast<int64_t>(scratch.capacity()),
            op.ScratchBytes({width, height}, channels) + 64);
  return image.pixels();
}

Bytes Noise(int64_t height, int64_t width, int channels, uint64_t key) {
  PaddedImage image(height, width, channels, 0);
  image.FillNoise(key);
  return image.pixels();
}

ColorJitterOptions FullJitter() {
  ColorJitterOptions options;
  options.place = 2;
  options.brightness = {{0.6, 1.4}};
  options.contrast = {{0.5, 1.5}};
  options.saturation = {{0.2, 3}};
  options.hue = {{-0.1, 0.3}};
  return options;
}

TEST(ColorJitter, DrawsFactorsUniformlyAndOrdersEvenly) {
  const auto op = MakeColorJitter(FullJitter());
  constexpr int kDraws = 24000;
  std::map<std::string, std::vector<double>> drawn;
  std::map<std::string, int64_t> orders;
  RecordingLog log;
  for (int i = 0; i < kDraws; ++i) {
    const std::string what = Draws(*op, Key(i), log);
    ASSERT_EQ(log.lines(), i + 1);
    ASSERT_EQ(log.place(), 2u);
    for (const char* name : {"brightness", "contrast", "saturation", "hue"}) {
      ASSERT_TRUE(log.Number(name).has_value()) << what;
      drawn[name].push_back(*log.Number(name));
    }
    const std::string begin = "color_jitter: order ";
    ASSERT_EQ(what.rfind(begin, 0), 0u) << what;
    ++orders[what.substr(begin.size(), what.find(';') - begin.size())];
  }
  EXPECT_LT(UniformDistance(drawn["brightness"], 0.6, 1.4), kKolmogorovLimit);
  EXPECT_LT(UniformDistance(drawn["contrast"], 0.5, 1.5), kKolmogorovLimit);
  EXPECT_LT(UniformDistance(drawn["saturation"], 0.2, 3), kKolmogorovLimit);
  EXPECT_LT(UniformDistance(drawn["hue"], -0.1, 0.3), kKolmogorovLimit);
  ASSERT_EQ(orders.size(), 24u);
  std::vector<int64_t> counts;
  for (const auto& [order, count] : orders) counts.push_back(count);
  EXPECT_LT(EvennessDistance(counts), kChiSquareLimit);
}

// The documented draws, and the plain functions in the drawn order.
TEST(ColorJitter, IsTheFourChangesOneAfterTheOther) {
  const ColorJitterOptions options = FullJitter();
  const auto op = MakeColorJitter(options);
  std::vector<std::array<int, 4>> permutations;
  std::array<int, 4> p = {0, 1, 2, 3};
  do {
    permutations.push_back(p);
  } while (std::next_permutation(p.begin(), p.end()));
  for (int channels : {1, 3}) {
    const Bytes source = Noise(19, 37, channels, 5);
    std::map<uint64_t, int> seen;
    for (uint64_t i = 0; i < 200; ++i) {
      CounterRandom random(Key(i), options.place);
      random.Uniform();
      const uint64_t order = random.Below(24);
      const double brightness = random.Uniform(0.6, 1.4);
      const double contrast = random.Uniform(0.5, 1.5);
      const double saturation = random.Uniform(0.2, 3);
      const double hue = random.Uniform(-0.1, 0.3);
      Bytes want = source;
      const ImageSpan image = {want.data(), 19, 37, channels, 37 * channels};
      for (int change : permutations[order]) {
        if (change == 0) AdjustBrightness(image, brightness);
        if (change == 1) AdjustContrast(image, contrast);
        if (change == 2) AdjustSaturation(image, saturation);
        if (change == 3) AdjustHue(image, hue);
      }
      ASSERT_EQ(Applied(*op, source, 19, 37, channels, Key(i)), want) << i;
      ++seen[order];
    }
    EXPECT_EQ(seen.size(), 24u);
  }
}

TEST(ColorJitter, LeavesOutWhatIsNotAsked) {
  ColorJitterOptions options;
  options.saturation = {{0.5, 0.5}};
  RecordingLog log;
  EXPECT_EQ(Draws(*MakeColorJitter(options), 4, log),
            "color_jitter: order saturation; saturation 0.5");
  const Bytes source = Noise(5, 6, 3, 1);
  Bytes want = source;
  AdjustSaturation({want.data(), 5, 6, 3, 18}, 0.5);
  EXPECT_EQ(Applied(*MakeColorJitter(options), source, 5, 6, 3, 4), want);

  EXPECT_EQ(Applied(*MakeColorJitter({}), source, 5, 6, 3, 4), source);
}

// Of every op: applied as often as p says, otherwise the image stays.
TEST(ColorOps, AreAppliedAsOftenAsTheirProbabilitySays) {
  const Bytes source = Noise(8, 8, 3, 2);
  for (double p : {0.0, 0.2, 0.75, 1.0}) {
    ColorJitterOptions jitter = FullJitter();
    jitter.p = p;
    GaussianBlurOptions blur = {.place = 1, .p = p, .sigma_min = 1};
    std::vector<std::unique_ptr<const PixelOp>> ops;
    ops.push_back(MakeColorJitter(jitter));
    ops.push_back(MakeGrayscale({.place = 7, .p = p}));
    ops.push_back(MakeGaussianBlur(blur));
    ops.push_back(MakeRandomErasing({.place = 3,
                                     .p = p,
                                     .scale_min = 0.2,
                                     .ratio_min = 0.9,
                                     .ratio_max = 1.1,
                                     .value = {7}}));
    for (size_t k = 0; k < ops.size(); ++k) {
      constexpr int kDraws = 4000;
      int64_t applied = 0;
      for (int i = 0; i < kDraws; ++i) {
        const bool changed =
            Applied(*ops[k], source, 8, 8, 3, Key(i)) != source;
        applied += changed;
        RecordingLog log;
        AlignedBuffer scratch;
        Bytes copy = source;
        ASSERT_TRUE(
            ops[k]
                ->Apply({copy.data(), 8, 8, 3, 24}, {Key(i), &scratch, &log})
                .ok());
        const bool said = log.what().find("not applied") == std::string::npos;
        ASSERT_EQ(changed, said) << log.what();
      }
      if (p == 0 || p == 1) {
        EXPECT_EQ(applied, p == 0 ? 0 : kDraws) << "op " << k;
      } else {
        EXPECT_LT(std::abs(ShareDistance(applied, kDraws, p)), kShareLimit)
            << "op " << k << " at p = " << p;
      }
    }
  }
}

TEST(Grayscale, MakesGrey) {
  const Bytes source = Noise(6, 11, 3, 9);
  Bytes want = source;
  MakeGrey({want.data(), 6, 11, 3, 33});
  EXPECT_EQ(Applied(*MakeGrayscale({}), source, 6, 11, 3, 1), want);
  const Bytes grey = Noise(6, 11, 1, 9);
  EXPECT_EQ(Applied(*MakeGrayscale({}), grey, 6, 11, 1, 1), grey);
}

TEST(GaussianBlur, DrawsSigmaUniformly) {
  const auto op = MakeGaussianBlur({.place = 6, .kernel_size = 23});
  std::vector<double> sigmas;
  RecordingLog log;
  for (int i = 0; i < 20000; ++i) {
    Draws(*op, Key(i), log);
    ASSERT_TRUE(log.Number("sigma").has_value());
    sigmas.push_back(*log.Number("sigma"));
  }
  EXPECT_LT(UniformDistance(sigmas, 0.1, 2), kKolmogorovLimit);
}

TEST(GaussianBlur, BlursBySigmaAsDocumented) {
  const auto op = MakeGaussianBlur({.place = 6, .kernel_size = 9});
  const Bytes source = Noise(21, 18, 3, 9);
  for (uint64_t i = 0; i < 20; ++i) {
    CounterRandom random(Key(i), 6);
    random.Uniform();
    Bytes want = source;
    AlignedBuffer scratch;
    ASSERT_TRUE(BlurPixels({want.data(), 21, 18, 3, 54}, 9,
                           random.Uniform(0.1, 2), scratch)
                    .ok());
    EXPECT_EQ(Applied(*op, source, 21, 18, 3, Key(i)), want);
  }
}

// torchvision's RandomErasing.make_params with another generator and the C
// library's functions.
std::array<double, 4> TorchvisionRect(double height, double width,
                                      std::mt19937_64& generator) {
  auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(generator);
  };
  for (int i = 0; i < 10; ++i) {
    const double area = height * width * uniform(0.02, 0.33);
    const double ratio = std::exp(uniform(std::log(0.3), std::log(3.3)));
    const double h = std::nearbyint(std::sqrt(area * ratio));
    const double w = std::nearbyint(std::sqrt(area / ratio));
    if (!(h < height && w < width)) continue;
    auto below = [&](double n) {
      return static_cast<double>(std::uniform_int_distribution<int64_t>(
          0, static_cast<int64_t>(n) - 1)(generator));
    };
    const double top = below(height - h + 1);
    return {top, below(width - w + 1), h, w};
  }
  return {0, 0, 0, 0};
}

TEST(RandomErasing, DrawsItsRectangleAsTorchvision) {
  // Also images where many tries fail.
  for (Size image : {Size{224, 224}, Size{32, 32}, Size{300, 40}}) {
    constexpr int kDraws = 20000;
    std::mt19937_64 generator(7);
    std::vector<double> ours[6], theirs[6];
    for (int i = 0; i < kDraws; ++i) {
      CounterRandom random(Key(i), 4);
      const Rect r = RandomErasingRect(image, {}, random);
      ASSERT_LT(r.width, image.width);
      ASSERT_LT(r.height, image.height);
      ASSERT_LE(r.left + r.width, image.width);
      ASSERT_LE(r.top + r.height, image.height);
      auto add = [](std::vector<double>(&to)[6], double top, double left,
                    double h, double w) {
        to[0].push_back(top);
        to[1].push_back(left);
        to[2].push_back(h);
        to[3].push_back(w);
        to[4].push_back(h * w);
        to[5].push_back(w > 0 ? h / w : -1);
      };
      add(ours, r.top, r.left, r.height, r.width);
      const auto [top, left, h, w] =
          TorchvisionRect(image.height, image.width, generator);
      add(theirs, top, left, h, w);
    }
    for (int k = 0; k < 6; ++k) {
      EXPECT_LT(TwoSampleDistance(ours[k], theirs[k]), kKolmogorovLimit)
          << "measure " << k << " at width " << image.width;
    }
  }
}

TEST(RandomErasing, DrawsAreaAndRatioAsPublished) {
  // Every first try fits, so nothing is conditioned on fitting.
  RandomErasingOptions options;
  options.scale_min = 0.05;
  options.scale_max = 0.25;
  options.ratio_min = 0.5;
  options.ratio_max = 2;
  std::vector<double> areas, ratios;
  for (int i = 0; i < 20000; ++i) {
    CounterRandom random(Key(i), 4);
    const Rect r = RandomErasingRect({20000, 20000}, options, random);
    areas.push_back(static_cast<double>(r.width) * r.height / 4e8);
    ratios.push_back(std::log(static_cast<double>(r.height) / r.width));
  }
  EXPECT_LT(UniformDistance(areas, 0.05, 0.25), kKolmogorovLimit);
  EXPECT_LT(UniformDistance(ratios, -std::log(2), std::log(2)),
            kKolmogorovLimit);
}

TEST(RandomErasing, PaintsTheRectangleAndNothingElse) {
  for (int channels : {1, 3, 4}) {
    const int64_t height = 23, width = 31;
    const Bytes source = Noise(height, width, channels, 8);
    std::vector<RandomErasingOptions> kinds(4);
    kinds[1].value = {99};
    for (int c = 0; c < channels; ++c) kinds[2].value.push_back(10 * c + 1);
    kinds[3].random_value = true;
    for (RandomErasingOptions& options : kinds) {
      options.p = 1;
      options.place = 5;
      const auto op = MakeRandomErasing(options);
      for (uint64_t i = 0; i < 50; ++i) {
        CounterRandom random(Key(i), 5);
        random.Uniform();
        const Rect r = RandomErasingRect({width, height}, options, random);
        Bytes want = source;
        for (int64_t y = 0; y < r.height; ++y) {
          uint64_t noise = 0;
          for (int64_t b = 0; b < r.width * channels; ++b) {
            if (options.random_value && b % 8 == 0) noise = random.Next64();
            want[((r.top + y) * width + r.left) * channels + b] =
                options.random_value ? static_cast<uint8_t>(noise >> b % 8 * 8)
                : options.value.empty()
                    ? 0
                    : options
                          .value[options.value.size() == 1 ? 0 : b % channels];
          }
        }
        ASSERT_EQ(Applied(*op, source, height, width, channels, Key(i)), want);
      }
    }
  }
}

TEST(RandomErasing, RandomBytesAreEven) {
  const auto op = MakeRandomErasing({.p = 1, .random_value = true});
  std::vector<int64_t> counts(256);
  for (uint64_t i = 0; i < 60; ++i) {
    Bytes pixels(100 * 100 * 3);
    RecordingLog log;
    ASSERT_TRUE(
        op->Apply({pixels.data(), 100, 100, 3, 300}, {Key(i), nullptr, &log})
            .ok());
    const int64_t left = static_cast<int64_t>(*log.Number("left"));
    const int64_t top = static_cast<int64_t>(*log.Number("top"));
    for (int64_t y = 0; y < *log.Number("height"); ++y) {
      for (int64_t b = 0; b < 3 * *log.Number("width"); ++b) {
        ++counts[pixels[(top + y) * 300 + left * 3 + b]];
      }
    }
  }
  EXPECT_LT(EvennessDistance(counts), kChiSquareLimit);
}

TEST(ColorOps, DependOnKeyAndPlaceAlone) {
  const Bytes source = Noise(17, 40, 3, 3);
  auto make = [](uint32_t place) {
    ColorJitterOptions jitter = FullJitter();
    jitter.place = place;
    std::vector<std::unique_ptr<const PixelOp>> ops;
    ops.push_back(MakeColorJitter(jitter));
    ops.push_back(MakeGaussianBlur({.place = place, .kernel_size = 5}));
    ops.push_back(MakeRandomErasing({.place = place, .p = 1}));
    return ops;
  };
  const auto ops = make(1);
  const auto elsewhere = make(2);
  for (size_t k = 0; k < ops.size(); ++k) {
    std::vector<Bytes> first;
    for (uint64_t i = 0; i < 40; ++i) {
      first.push_back(Applied(*ops[k], source, 17, 40, 3, Key(i)));
    }
    EXPECT_NE(first[0], first[1]);
    EXPECT_NE(first[0], Applied(*elsewhere[k], source, 17, 40, 3, Key(0)));
    // In other threads and another order.
    std::vector<std::vector<Bytes>> again(4, std::vector<Bytes>(40));
    std::vector<std::thread> threads;
    for (size_t t = 0; t < again.size(); ++t) {
      threads.emplace_back([&, t] {
        for (int i = 39; i >= 0; --i) {
          again[t][i] = Applied(*ops[k], source, 17, 40, 3, Key(i));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& results : again) EXPECT_EQ(results, first);
  }
}

// What servers have sent for these keys, whatever their CPU. Whoever changes
// the bytes on purpose raises kContentRevision and writes the new numbers here.
TEST(ColorOps, KeepTheirBytes) {
  const Bytes source = Noise(33, 65, 3, 12);
  auto digest = [&](const PixelOp& op) {
    uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
    for (uint64_t i = 0; i < 30; ++i) {
      for (uint8_t byte : Applied(op, source, 33, 65, 3, Key(i))) {
        hash = (hash ^ byte) * 0x100000001B3;
      }
    }
    return hash;
  };
  EXPECT_EQ(digest(*MakeColorJitter(FullJitter())), 9792487241850053705u);
  EXPECT_EQ(digest(*MakeGrayscale({.place = 1, .p = 0.5})),
            11309671570092540551u);
  EXPECT_EQ(digest(*MakeGaussianBlur({.place = 1, .kernel_size = 23})),
            2681977122081379822u);
  EXPECT_EQ(digest(*MakeRandomErasing({.place = 1, .random_value = true})),
            9879473016743672850u);
}

}  // namespace
}  // namespace millrace::augment
