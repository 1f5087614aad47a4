#include "server/augment/auto_augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "server/augment/color_functions.h"
#include "server/augment/random.h"
#include "server/augment/random_affine.h"

namespace millrace::augment {
namespace {

class Log : public ParameterLog {
 public:
  void Add(uint32_t place, std::string what) override {
    EXPECT_EQ(place, 2u);
    line = what;
  }
  std::string line;
};

struct Drawn {
  std::string name;
  double strength = 0;
};

std::vector<Drawn> Parse(const std::string& line) {
  std::vector<Drawn> drawn;
  if (line.empty()) return drawn;
  for (const std::string& part :
       std::vector<std::string>(absl::StrSplit(line, ", "))) {
    char name[32] = {};
    Drawn d;
    EXPECT_GE(std::sscanf(part.c_str(), "%31s %lf", name, &d.strength), 1);
    d.name = name;
    drawn.push_back(d);
  }
  return drawn;
}

struct Image {
  Image(int height, int width, int channels, uint64_t key)
      : pixels(height * width * channels) {
    span = {pixels.data(), height, width, channels, width * channels};
    CounterRandom random(key, 9);
    // Not all values, so that equalizing and stretching change something.
    for (uint8_t& b : pixels) {
      b = static_cast<uint8_t>(40 + random.Below(60) + random.Below(90));
    }
  }
  Image(const Image& other) : pixels(other.pixels), span(other.span) {
    span.data = pixels.data();
  }
  std::vector<uint8_t> pixels;
  ImageSpan span;
};

AutoAugmentOptions Wide() { return {.place = 2}; }

AutoAugmentOptions Rand(int num_ops, int magnitude) {
  AutoAugmentOptions options;
  options.place = 2;
  options.wide = false;
  options.num_ops = num_ops;
  options.magnitude = magnitude;
  return options;
}

std::vector<Drawn> Apply(const AutoAugmentOptions& options, uint64_t key,
                         Image& image) {
  AlignedBuffer scratch;
  Log log;
  EXPECT_TRUE(MakeAutoAugment(options)
                  ->Apply(image.span,
                          {.sample_key = key, .scratch = &scratch, .log = &log})
                  .ok());
  return Parse(log.line);
}

// What each operation does, from the parts that are tested elsewhere.
void ByHand(const Drawn& d, const AutoAugmentOptions& options, Image& image) {
  AlignedBuffer scratch;
  const Size size = {image.span.width, image.span.height};
  auto warp = [&](const AffineParameters& p) {
    bool given = false;
    for (int c = 0; c < options.fill.count(); ++c) {
      given |= options.fill.of(c) != 0;
    }
    ASSERT_TRUE(WarpInPlace(image.span, MakeAffine(p, size).inverse,
                            options.nearest, options.fill, given, scratch)
                    .ok());
  };
  const double s = d.strength;
  const std::map<std::string, std::function<void()>> operations = {
      {"Identity", [] {}},
      {"ShearX", [&] { warp({.shear_x = s, .about_corner = true}); }},
      {"ShearY", [&] { warp({.shear_y = s, .about_corner = true}); }},
      {"TranslateX", [&] { warp({.translate_x = s}); }},
      {"TranslateY", [&] { warp({.translate_y = s}); }},
      {"Rotate", [&] { warp({.degrees = -s}); }},
      {"Brightness", [&] { AdjustBrightness(image.span, 1 + s); }},
      {"Color", [&] { AdjustSaturation(image.span, 1 + s); }},
      {"Contrast", [&] { AdjustContrast(image.span, 1 + s); }},
      {"Sharpness",
       [&] { ASSERT_TRUE(AdjustSharpness(image.span, 1 + s, scratch).ok()); }},
      {"Posterize", [&] { Posterize(image.span, static_cast<int>(s)); }},
      {"Solarize", [&] { Solarize(image.span, 255 * s); }},
      {"AutoContrast", [&] { AutoContrast(image.span); }},
      {"Equalize", [&] { Equalize(image.span); }},
  };
  ASSERT_TRUE(operations.contains(d.name)) << d.name;
  operations.at(d.name)();
}

TEST(AutoAugment, RunsTheOperationsThatItHasDrawn) {
  const uint8_t colour[3] = {10, 20, 30};
  for (int n = 0; n < 6; ++n) {
    AutoAugmentOptions options = n < 3 ? Wide() : Rand(2, 7 * (n - 2));
    options.nearest = n % 3 != 1;
    if (n % 3 != 2) options.fill = FillColor(colour, 3);
    std::set<std::string> seen;
    for (uint64_t key = 0; key < 120; ++key) {
      const Image before(21, 26, 3, key);
      Image got = before;
      Image want = before;
      const std::vector<Drawn> drawn = Apply(options, key, got);
      ASSERT_EQ(drawn.size(), n < 3 ? 1u : 2u);
      for (const Drawn& d : drawn) {
        seen.insert(d.name);
        ByHand(d, options, want);
      }
      // The strength is printed with six digits.
      int64_t apart = 0;
      for (size_t i = 0; i < want.pixels.size(); ++i) {
        apart += std::abs(want.pixels[i] - got.pixels[i]) > 1;
      }
      EXPECT_LE(apart, static_cast<int64_t>(want.pixels.size() / 100))
          << drawn[0].name << " " << drawn[0].strength;
      if (drawn.back().name == "Identity" && drawn.size() == 1) {
        EXPECT_EQ(got.pixels, before.pixels);
      }
    }
    EXPECT_EQ(seen.size(), 14u);
  }
}

// From torchvision 0.26: [f(v) for v in space[name][0](31, 224, 200)] with f
// as _apply_image_or_video_transform uses it, for every fifth strength.
// TranslateX 16 is 15 with AVX2 there: linspace in float32 ends below 16.
TEST(AutoAugment, HasTorchvisionsStrengths) {
  struct Row {
    std::string name;
    std::vector<double> wide, rand;
  };
  const std::vector<Row> rows = {
      {"ShearX",
       {0, 0.165, 0.33, 0.495, 0.66, 0.825, 0.99},
       {0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3}},
      {"ShearY",
       {0, 0.165, 0.33, 0.495, 0.66, 0.825, 0.99},
       {0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3}},
      {"TranslateX", {0, 5, 10, 16, 21, 26, 32}, {0, 15, 30, 45, 60, 75, 90}},
      {"TranslateY", {0, 5, 10, 16, 21, 26, 32}, {0, 16, 33, 50, 67, 84, 101}},
      {"Rotate",
       {0, 22.5, 45, 67.5, 90, 112.5, 135},
       {0, 5, 10, 15, 20, 25, 30}},
      {"Brightness",
       {0, 0.165, 0.33, 0.495, 0.66, 0.825, 0.99},
       {0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9}},
      {"Color",
       {0, 0.165, 0.33, 0.495, 0.66, 0.825, 0.99},
       {0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9}},
      {"Contrast",
       {0, 0.165, 0.33, 0.495, 0.66, 0.825, 0.99},
       {0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9}},
      {"Sharpness",
       {0, 0.165, 0.33, 0.495, 0.66, 0.825, 0.99},
       {0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9}},
      {"Posterize", {8, 7, 6, 5, 4, 3, 2}, {8, 7, 7, 6, 5, 5, 4}},
      {"Solarize",
       {1, 0.833333, 0.666667, 0.5, 0.333333, 0.166667, 0},
       {1, 0.833333, 0.666667, 0.5, 0.333333, 0.166667, 0}},
  };
  std::map<std::string, std::set<double>> wide;
  for (uint64_t key = 0; key < 12000; ++key) {
    Image image(4, 4, 1, 0);
    const Drawn d = Apply(Wide(), key, image)[0];
    wide[d.name].insert(std::abs(d.strength));
    if (key > 1500 && wide.size() == 14 && wide["Rotate"].size() == 31 &&
        wide["TranslateX"].size() == 31) {
      break;
    }
  }
  for (const Row& row : rows) {
    for (double strength : row.wide) {
      bool found = false;
      for (double s : wide[row.name]) found |= std::abs(s - strength) < 1e-6;
      EXPECT_TRUE(found) << row.name << " " << strength;
    }
    EXPECT_LE(*wide[row.name].rbegin(),
              *std::max_element(row.wide.begin(), row.wide.end()) + 1e-6);
  }
  for (int i = 0; i < 7; ++i) {
    std::map<std::string, double> rand;
    for (uint64_t key = 0; rand.size() < 14 && key < 400; ++key) {
      Image image(224, 200, 1, 0);
      for (const Drawn& d : Apply(Rand(2, 5 * i), key, image)) {
        rand[d.name] = std::abs(d.strength);
      }
    }
    ASSERT_EQ(rand.size(), 14u);
    for (const Row& row : rows) {
      EXPECT_NEAR(rand[row.name], row.rand[i], 1e-6) << row.name << " " << i;
    }
  }
}

double ChiSquare(const std::vector<int>& counts) {
  double total = 0, sum = 0;
  for (int c : counts) total += c;
  const double expected = total / static_cast<double>(counts.size());
  for (int c : counts) sum += (c - expected) * (c - expected) / expected;
  return sum;
}

TEST(AutoAugment, DrawsOperationsStrengthsAndSignsEvenly) {
  std::map<std::string, int> operations;
  std::vector<int> bins(31), signs(2);
  for (uint64_t key = 0; key < 30000; ++key) {
    Image image(4, 4, 3, 0);
    const Drawn d = Apply(Wide(), key, image)[0];
    ++operations[d.name];
    if (d.name == "Rotate" || d.name == "ShearX") {
      const double most = d.name == "Rotate" ? 135 : 0.99;
      const int bin =
          static_cast<int>(std::round(std::abs(d.strength) / most * 30));
      ++bins[bin];
      if (bin > 0) ++signs[d.strength < 0];
    }
  }
  std::vector<int> counts;
  for (const auto& [name, count] : operations) counts.push_back(count);
  ASSERT_EQ(counts.size(), 14u);
  EXPECT_LT(ChiSquare(counts), 34.5);  // 13 degrees of freedom, 0.1 %
  EXPECT_LT(ChiSquare(bins), 59.7);    // 30
  EXPECT_LT(ChiSquare(signs), 10.8);   // 1
}

TEST(AutoAugment, IsAppliedAsOftenAsItsProbabilitySays) {
  AutoAugmentOptions options = Rand(1, 9);
  options.probability = 0.25;
  int applied = 0;
  for (uint64_t key = 0; key < 8000; ++key) {
    Image image(2, 2, 3, 0);
    applied += Apply(options, key, image)[0].name != "not";
  }
  EXPECT_NEAR(applied, 2000, 130);
}

TEST(AutoAugment, WithoutOperationsChangesNothing) {
  Image image(5, 5, 3, 1);
  const Image before = image;
  EXPECT_TRUE(Apply(Rand(0, 9), 1, image).empty());
  EXPECT_EQ(image.pixels, before.pixels);
}

}  // namespace
}  // namespace millrace::augment
