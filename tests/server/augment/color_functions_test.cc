#include "server/augment/color_functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "server/augment/gaussian_blur.h"
#include "server/decode/image_decoder.h"
#include "tests/server/augment/padded_image.h"
#include "tests/server/augment/simd_targets.h"

namespace millrace::augment {
namespace {

using Bytes = std::vector<uint8_t>;

// Plain images for the references.
struct Plain {
  int64_t height = 0;
  int64_t width = 0;
  int channels = 3;
  Bytes pixels;

  uint8_t at(int64_t y, int64_t x, int c) const {
    return pixels[(y * width + x) * channels + c];
  }
};

Plain Noise(int64_t height, int64_t width, int channels, uint64_t key) {
  PaddedImage image(height, width, channels, 0);
  image.FillNoise(key);
  return {height, width, channels, image.pixels()};
}

// ---- torchvision's formulas, in double precision

uint8_t Cut(double x) {
  return static_cast<uint8_t>(std::clamp(x, 0.0, 255.0));
}

double GreyOf(double r, double g, double b) {
  return std::floor((2989 * r + 5870 * g + 1140 * b) / 10000);
}

Plain EachPixel(Plain image, const std::function<void(uint8_t*)>& change) {
  for (size_t i = 0; i < image.pixels.size(); i += image.channels) {
    change(image.pixels.data() + i);
  }
  return image;
}

Plain Brightness(const Plain& image, double factor) {
  return EachPixel(image, [&](uint8_t* p) {
    for (int c = 0; c < image.channels; ++c) p[c] = Cut(p[c] * factor);
  });
}

Plain Contrast(const Plain& image, double factor) {
  double sum = 0;
  EachPixel(image, [&](uint8_t* p) {
    sum += image.channels == 1 ? p[0] : GreyOf(p[0], p[1], p[2]);
  });
  const double mean = sum / (image.height * image.width);
  return EachPixel(image, [&](uint8_t* p) {
    for (int c = 0; c < image.channels; ++c) {
      p[c] = Cut(p[c] * factor + (1 - factor) * mean);
    }
  });
}

Plain Saturation(const Plain& image, double factor) {
  if (image.channels == 1) return image;
  return EachPixel(image, [&](uint8_t* p) {
    const double grey = GreyOf(p[0], p[1], p[2]);
    for (int c = 0; c < 3; ++c) p[c] = Cut(p[c] * factor + (1 - factor) * grey);
  });
}

Plain Hue(const Plain& image, double shift) {
  if (image.channels == 1) return image;
  return EachPixel(image, [&](uint8_t* p) {
    const double r = p[0] / 255.0, g = p[1] / 255.0, b = p[2] / 255.0;
    const double v = std::max({r, g, b});
    const double range = v - std::min({r, g, b});
    double h = 0;
    if (range > 0) {
      h = v == r   ? (g - b) / range
          : v == g ? 2 + (b - r) / range
                   : 4 + (r - g) / range;
    }
    h = h / 6 + 1 + shift;
    h = 6 * (h - std::floor(h));
    const double s = v > 0 ? range / v : 0;
    const double f = h - std::floor(h);
    const double low = v * (1 - s);
    const double falling = v * (1 - s * f);
    const double rising = v * (1 - s * (1 - f));
    double out[3] = {0, 0, 0};
    switch (static_cast<int>(h) % 6) {
      case 0:
        out[0] = v, out[1] = rising, out[2] = low;
        break;
      case 1:
        out[0] = falling, out[1] = v, out[2] = low;
        break;
      case 2:
        out[0] = low, out[1] = v, out[2] = rising;
        break;
      case 3:
        out[0] = low, out[1] = falling, out[2] = v;
        break;
      case 4:
        out[0] = rising, out[1] = low, out[2] = v;
        break;
      case 5:
        out[0] = v, out[1] = low, out[2] = falling;
        break;
    }
    for (int c = 0; c < 3; ++c) p[c] = Cut(out[c] * 255.999);
  });
}

Plain Grey(const Plain& image) {
  if (image.channels == 1) return image;
  return EachPixel(image, [&](uint8_t* p) {
    p[0] = p[1] = p[2] = Cut(GreyOf(p[0], p[1], p[2]));
  });
}

Plain Sharpness(const Plain& image, double factor) {
  Plain out = image;
  for (int64_t y = 1; y + 1 < image.height; ++y) {
    for (int64_t x = 1; x + 1 < image.width; ++x) {
      for (int c = 0; c < image.channels; ++c) {
        double sum = 4 * image.at(y, x, c);
        for (int dy = -1; dy <= 1; ++dy) {
          for (int dx = -1; dx <= 1; ++dx) sum += image.at(y + dy, x + dx, c);
        }
        const double smooth = std::nearbyint(sum / 13);
        out.pixels[(y * image.width + x) * image.channels + c] =
            Cut(image.at(y, x, c) * factor + (1 - factor) * smooth);
      }
    }
  }
  return out;
}

int64_t Mirrored(int64_t i, int64_t n) {
  while (n > 1 && (i < 0 || i >= n)) i = i < 0 ? -i : 2 * (n - 1) - i;
  return n == 1 ? 0 : i;
}

Plain Blur(const Plain& image, int kernel_size, double sigma) {
  const int radius = kernel_size / 2;
  std::vector<double> weights;
  double total = 0;
  for (int k = -radius; k <= radius; ++k) {
    weights.push_back(std::exp(-k * k / (2 * sigma * sigma)));
    total += weights.back();
  }
  auto place = [&](int64_t y, int64_t x, int c) {
    return (y * image.width + x) * image.channels + c;
  };
  std::vector<double> tall(image.pixels.size());
  Plain out = image;
  for (const bool along_x : {false, true}) {
    for (int64_t y = 0; y < image.height; ++y) {
      for (int64_t x = 0; x < image.width; ++x) {
        for (int c = 0; c < image.channels; ++c) {
          double sum = 0;
          for (int k = -radius; k <= radius; ++k) {
            sum += weights[k + radius] *
                   (along_x ? tall[place(y, Mirrored(x + k, image.width), c)]
                            : image.at(Mirrored(y + k, image.height), x, c));
          }
          if (along_x) {
            out.pixels[place(y, x, c)] =
                static_cast<uint8_t>(std::nearbyint(sum / total));
          } else {
            tall[place(y, x, c)] = sum / total;
          }
        }
      }
    }
  }
  return out;
}

Plain AutoContrasted(const Plain& image) {
  Plain out = image;
  for (int c = 0; c < image.channels; ++c) {
    int least = 255, largest = 0;
    for (size_t i = c; i < image.pixels.size(); i += image.channels) {
      least = std::min<int>(least, image.pixels[i]);
      largest = std::max<int>(largest, image.pixels[i]);
    }
    if (least == largest) continue;
    const float scale =
        static_cast<float>(largest - least) * static_cast<float>(1 / 255.0);
    for (size_t i = c; i < image.pixels.size(); i += image.channels) {
      out.pixels[i] = static_cast<uint8_t>(std::min(
          255.0f, static_cast<float>(image.pixels[i] - least) / scale));
    }
  }
  return out;
}

Plain Equalized(const Plain& image) {
  Plain out = image;
  const int64_t pixels = image.height * image.width;
  for (int c = 0; c < image.channels; ++c) {
    std::vector<int64_t> counts(256);
    for (size_t i = c; i < image.pixels.size(); i += image.channels) {
      ++counts[image.pixels[i]];
    }
    int64_t last = 0;
    for (int64_t n : counts) last = n != 0 ? n : last;
    const int64_t step = (pixels - last) / 255;
    if (step == 0) continue;
    std::vector<int64_t> table;
    int64_t sum = step / 2;
    for (int64_t n : counts) {
      table.push_back(std::min<int64_t>(255, sum / step));
      sum += n;
    }
    for (size_t i = c; i < image.pixels.size(); i += image.channels) {
      out.pixels[i] = static_cast<uint8_t>(table[image.pixels[i]]);
    }
  }
  return out;
}

// ---- what is tested

struct Case {
  std::string name;
  std::function<void(ImageSpan)> run;
  std::function<Plain(const Plain&)> reference;
  double equal = 1;  // least share of bytes that are the reference's; no other
                     // is more than a level away
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  auto add = [&](std::string name, double amount,
                 std::function<void(ImageSpan)> run,
                 std::function<Plain(const Plain&)> reference, double equal) {
    cases.push_back({name + " " + std::to_string(amount), std::move(run),
                     std::move(reference), equal});
  };
  struct Factor {
    double f;
    double equal;
  };
  // Just below a whole number every byte of the formula stands just below one,
  // too, where 16 bits round up.
  for (auto [f, equal] : std::vector<Factor>{{0, 0.97},
                                             {0.003, 0.97},
                                             {0.5, 0.97},
                                             {0.81, 0.97},
                                             {0.99999, 0},
                                             {1, 1},
                                             {1.2, 0.97},
                                             {1.9999, 0},
                                             {2, 0.97},
                                             {7.3, 0.97},
                                             {100, 0.97},
                                             {250, 0.97}}) {
    add(
        "brightness", f, [f = f](ImageSpan i) { AdjustBrightness(i, f); },
        [f = f](const Plain& i) { return Brightness(i, f); }, equal);
    add(
        "contrast", f, [f = f](ImageSpan i) { AdjustContrast(i, f); },
        [f = f](const Plain& i) { return Contrast(i, f); }, equal);
    add(
        "saturation", f, [f = f](ImageSpan i) { AdjustSaturation(i, f); },
        [f = f](const Plain& i) { return Saturation(i, f); }, equal);
    add(
        "sharpness", f,
        [f = f](ImageSpan i) {
          AlignedBuffer scratch;
          ASSERT_TRUE(AdjustSharpness(i, f, scratch).ok());
        },
        [f = f](const Plain& i) { return Sharpness(i, f); }, equal);
  }
  for (double s : {-0.5, -0.3331, -0.1, -1e-5, 0.0, 0.0517, 0.25, 0.42, 0.5}) {
    add(
        "hue", s, [=](ImageSpan i) { AdjustHue(i, s); },
        [=](const Plain& i) { return Hue(i, s); }, 0.98);
  }
  for (int k : {1, 3, 5, 23, 255}) {
    for (double s : {0.01, 0.4, 1.0, 2.3, 1000.0}) {
      if (k == 255 && s < 2) continue;
      add(
          "blur " + std::to_string(k), s,
          [=](ImageSpan i) {
            AlignedBuffer scratch;
            ASSERT_TRUE(BlurPixels(i, k, s, scratch).ok());
          },
          [=](const Plain& i) { return Blur(i, k, s); }, 0.9);
    }
  }
  add(
      "grey", 0, [](ImageSpan i) { MakeGrey(i); }, Grey, 1);
  for (int bits = 0; bits <= 8; ++bits) {
    add(
        "posterize", bits, [=](ImageSpan i) { Posterize(i, bits); },
        [=](const Plain& i) {
          return EachPixel(i, [&](uint8_t* p) {
            for (int c = 0; c < i.channels; ++c) {
              p[c] = static_cast<uint8_t>(p[c] >> (8 - bits) << (8 - bits));
            }
          });
        },
        1);
  }
  for (double t : {-3.0, 0.0, 17.2, 128.0, 254.5, 255.0, 255.5}) {
    add(
        "solarize", t, [=](ImageSpan i) { Solarize(i, t); },
        [=](const Plain& i) {
          return EachPixel(i, [&](uint8_t* p) {
            for (int c = 0; c < i.channels; ++c) {
              if (p[c] >= t) p[c] = static_cast<uint8_t>(255 - p[c]);
            }
          });
        },
        1);
  }
  add(
      "autocontrast", 0, [](ImageSpan i) { AutoContrast(i); }, AutoContrasted,
      1);
  add(
      "equalize", 0, [](ImageSpan i) { Equalize(i); }, Equalized, 1);
  return cases;
}

// Noise, noise between two levels, and flat images.
std::vector<Plain> Images() {
  std::vector<Plain> images;
  for (int channels : {1, 3}) {
    uint64_t key = channels;
    for (auto [height, width] : std::vector<std::pair<int, int>>{
             {1, 1}, {1, 5}, {2, 2}, {3, 3}, {7, 64}, {31, 33}, {40, 129}}) {
      images.push_back(Noise(height, width, channels, key++));
    }
    Plain narrow = Noise(24, 26, channels, key);
    for (uint8_t& b : narrow.pixels) b = static_cast<uint8_t>(90 + b % 41);
    images.push_back(narrow);
    Plain flat = narrow;
    std::fill(flat.pixels.begin(), flat.pixels.end(), uint8_t{201});
    images.push_back(flat);
  }
  return images;
}

Bytes Changed(const Case& c, const Plain& image, int64_t guard) {
  PaddedImage padded(image.height, image.width, image.channels, guard);
  padded.FillPixels(image.pixels);
  c.run(padded.span());
  padded.ExpectGuardsIntact();
  return padded.pixels();
}

TEST(ColorFunctions, AreWithinOneLevelOfTheFormula) {
  for (const Case& c : Cases()) {
    int64_t values = 0;
    int64_t equal = 0;
    for (const Plain& image : Images()) {
      const Bytes got = Changed(c, image, 64);
      const Bytes want = c.reference(image).pixels;
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_LE(std::abs(got[i] - want[i]), 1)
            << c.name << " at byte " << i << " of " << image.height << " x "
            << image.width << " x " << image.channels << ": " << int{got[i]}
            << ", not " << int{want[i]};
        ++values;
        equal += got[i] == want[i];
      }
    }
    EXPECT_GE(static_cast<double>(equal), c.equal * static_cast<double>(values))
        << c.name;
  }
}

TEST(ColorFunctions, GiveTheSameBytesOnEveryInstructionSet) {
  const std::vector<Case> cases = Cases();
  const std::vector<Plain> images = Images();
  std::vector<Bytes> first;
  EXPECT_GE(ForEachSimdTarget([&] {
              std::vector<Bytes> all;
              for (const Case& c : cases) {
                for (const Plain& image : images) {
                  all.push_back(Changed(c, image, 64));
                  // In one long row as well.
                  ASSERT_EQ(all.back(), Changed(c, image, 0)) << c.name;
                }
              }
              if (first.empty()) first = all;
              for (size_t i = 0; i < all.size(); ++i) {
                ASSERT_EQ(all[i], first[i]) << cases[i / images.size()].name
                                            << ", image " << i % images.size();
              }
            }),
            2);
}

TEST(ColorFunctions, ChangeNothingAtTheNeutralStrength) {
  for (const Plain& image : Images()) {
    PaddedImage padded(image.height, image.width, image.channels, 8);
    padded.FillPixels(image.pixels);
    AlignedBuffer scratch;
    AdjustBrightness(padded.span(), 1);
    AdjustContrast(padded.span(), 1);
    AdjustSaturation(padded.span(), 1);
    AdjustHue(padded.span(), 0);
    ASSERT_TRUE(AdjustSharpness(padded.span(), 1, scratch).ok());
    ASSERT_TRUE(BlurPixels(padded.span(), 1, 1.0, scratch).ok());
    Posterize(padded.span(), 8);
    EXPECT_EQ(padded.pixels(), image.pixels);
  }
}

// Every colour that there is.
TEST(MakeGrey, IsTheFormulaForEveryColour) {
  Bytes colours(3 << 24);
  for (int i = 0; i < 1 << 24; ++i) {
    colours[3 * i] = static_cast<uint8_t>(i);
    colours[3 * i + 1] = static_cast<uint8_t>(i >> 8);
    colours[3 * i + 2] = static_cast<uint8_t>(i >> 16);
  }
  EXPECT_GE(ForEachSimdTarget([&] {
              Bytes grey = colours;
              MakeGrey({grey.data(), 4096, 4096, 3, 3 * 4096});
              int64_t wrong = 0;
              for (int i = 0; i < 1 << 24; ++i) {
                const int r = i & 255, g = i >> 8 & 255, b = i >> 16;
                const int want = (2989 * r + 5870 * g + 1140 * b) / 10000;
                wrong += grey[3 * i] != want || grey[3 * i + 1] != want ||
                         grey[3 * i + 2] != want;
              }
              EXPECT_EQ(wrong, 0);
            }),
            2);
}

TEST(BlurPixels, KeepsAConstantImage) {
  for (int value : {0, 1, 127, 254, 255}) {
    for (int kernel_size : {3, 23, 255}) {
      for (double sigma : {0.05, 0.7, 3.0, 500.0}) {
        Bytes pixels(20 * 30 * 3, static_cast<uint8_t>(value));
        AlignedBuffer scratch;
        ASSERT_TRUE(BlurPixels({pixels.data(), 20, 30, 3, 90}, kernel_size,
                               sigma, scratch)
                        .ok());
        EXPECT_EQ(pixels, Bytes(20 * 30 * 3, static_cast<uint8_t>(value)))
            << kernel_size << " " << sigma;
      }
    }
  }
}

TEST(ColorFunctions, ReserveWhatTheySay) {
  for (auto [height, width, channels] :
       std::vector<std::array<int, 3>>{{4, 4, 1}, {9, 130, 3}, {300, 5, 3}}) {
    Plain image = Noise(height, width, channels, 3);
    const ImageSpan span = {image.pixels.data(), height, width, channels,
                            width * channels};
    AlignedBuffer sharpness;
    ASSERT_TRUE(AdjustSharpness(span, 2, sharpness).ok());
    // The buffer rounds up to its alignment.
    EXPECT_LE(static_cast<int64_t>(sharpness.capacity()),
              SharpnessScratchBytes({width, height}, channels) + 64);
    for (double sigma : {0.1, 1.0, 50.0}) {
      AlignedBuffer blur;
      ASSERT_TRUE(BlurPixels(span, 31, sigma, blur).ok());
      EXPECT_LE(static_cast<int64_t>(blur.capacity()),
                BlurScratchBytes({width, height}, channels, 31) + 64);
    }
  }
}

// ---- against torchvision

Plain ReadPng(const std::string& name) {
  std::ifstream file("tests/testdata/color/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  const Bytes bytes{std::istreambuf_iterator<char>(file),
                    std::istreambuf_iterator<char>()};
  decode::ImageDecoder decoder;
  const auto header = decoder.Open(bytes, false);
  EXPECT_TRUE(header.ok()) << header.status();
  const auto decoded =
      decoder.Decode({1, 0, 0, header->width, header->height, 3});
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  Plain image = {header->height, header->width, 3, {}};
  for (int64_t y = 0; y < header->height; ++y) {
    const uint8_t* row = decoded->data + y * decoded->stride;
    image.pixels.insert(image.pixels.end(), row, row + header->width * 3);
  }
  return image;
}

// tests/testdata/color/make_golden.py says how these were made.
TEST(ColorFunctions, AgreeWithTorchvision) {
  struct Change {
    std::string name;
    std::function<void(ImageSpan)> run;
    bool exact;
  };
  AlignedBuffer scratch;
  const std::vector<Change> changes = {
      {"brightness 0.7", [](ImageSpan i) { AdjustBrightness(i, 0.7); }, false},
      {"brightness 1.3", [](ImageSpan i) { AdjustBrightness(i, 1.3); }, false},
      {"contrast 0.65", [](ImageSpan i) { AdjustContrast(i, 0.65); }, false},
      {"contrast 1.6", [](ImageSpan i) { AdjustContrast(i, 1.6); }, false},
      {"saturation 0.4", [](ImageSpan i) { AdjustSaturation(i, 0.4); }, false},
      {"saturation 1.83", [](ImageSpan i) { AdjustSaturation(i, 1.83); },
       false},
      {"hue 0.0737", [](ImageSpan i) { AdjustHue(i, 0.0737); }, false},
      {"hue -0.29", [](ImageSpan i) { AdjustHue(i, -0.29); }, false},
      {"sharpness 0.2",
       [&](ImageSpan i) { ASSERT_TRUE(AdjustSharpness(i, 0.2, scratch).ok()); },
       false},
      {"sharpness 1.9",
       [&](ImageSpan i) { ASSERT_TRUE(AdjustSharpness(i, 1.9, scratch).ok()); },
       false},
      {"grey", [](ImageSpan i) { MakeGrey(i); }, true},
      {"posterize 3", [](ImageSpan i) { Posterize(i, 3); }, true},
      {"solarize 100.3", [](ImageSpan i) { Solarize(i, 100.3); }, true},
      {"autocontrast", [](ImageSpan i) { AutoContrast(i); }, true},
      {"equalize", [](ImageSpan i) { Equalize(i); }, true},
      {"blur 9, 1.7",
       [&](ImageSpan i) { ASSERT_TRUE(BlurPixels(i, 9, 1.7, scratch).ok()); },
       false},
  };
  const Plain source = ReadPng("source.png");
  const Plain expected = ReadPng("expected.png");
  const size_t size = source.pixels.size();
  ASSERT_EQ(expected.pixels.size(), size * changes.size());
  for (size_t n = 0; n < changes.size(); ++n) {
    Bytes got = source.pixels;
    changes[n].run({got.data(), source.height, source.width, 3,
                    static_cast<ptrdiff_t>(source.width * 3)});
    const uint8_t* const want = expected.pixels.data() + n * size;
    size_t off = 0;
    for (size_t i = 0; i < size; ++i) {
      ASSERT_LE(std::abs(got[i] - want[i]), changes[n].exact ? 0 : 1)
          << changes[n].name << " at byte " << i;
      off += got[i] != want[i];
    }
    EXPECT_LE(off * 50, size) << changes[n].name;
  }
}

}  // namespace
}  // namespace millrace::augment
