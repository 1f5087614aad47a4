#include "server/decode/jpeg_decoder.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "server/decode/limits.h"
#include "server/decode/pixel_rows.h"
#include "tests/testing/images/jpeg_writer.h"

namespace millrace::decode {
namespace {

using Named = NamedJpegKind;

std::vector<Named> Kinds() {
  std::vector<Named> kinds =
      SampledJpegKinds({{97, 75}, {160, 128}, {33, 90}}, /*restart_rows=*/1);
  // Short and long codes, small and large coefficients, runs of zeros.
  for (int quality : {2, 30, 96, 100}) {
    for (bool optimized : {false, true}) {
      JpegKind k;
      k.width = 131;
      k.height = 121;
      k.quality = quality;
      k.optimized = optimized;
      const std::string name = "quality " + std::to_string(quality) +
                               (optimized ? " optimised" : "");
      kinds.push_back({name, k});
      k.components = 1;
      k.restart_rows = 2;
      kinds.push_back({name + " grey", k});
    }
  }
  // Every sampling that libjpeg knows: chroma finer than luma, none divided by
  // the other's direction, tables of 16 bits.
  using Sampling = std::vector<std::array<int, 2>>;
  for (const Sampling& sampling :
       std::vector<Sampling>{{{1, 4}, {1, 1}, {1, 1}},
                             {{4, 2}, {1, 1}, {1, 1}},
                             {{3, 1}, {1, 1}, {1, 1}},
                             {{1, 3}, {1, 1}, {1, 3}},
                             {{2, 2}, {1, 2}, {2, 1}},
                             {{2, 2}, {2, 1}, {2, 1}},
                             {{1, 1}, {2, 2}, {1, 1}},
                             {{1, 2}, {2, 1}, {2, 2}},
                             {{2, 2}, {2, 2}, {2, 2}}}) {
    JpegKind k;
    k.width = 103;
    k.height = 79;
    k.sampling = sampling;
    std::string name = "sampling";
    int blocks = 0;
    for (const auto& [h, v] : sampling) {
      name += " " + std::to_string(h) + "x" + std::to_string(v);
      blocks += h * v;
    }
    // An MCU of a scan of all components has at most ten blocks.
    k.separate_scans = blocks > 10;
    kinds.push_back({name, k});
    k.separate_scans = true;
    k.restart_rows = 1;
    kinds.push_back({name + " separate scans, restarts", k});
  }
  JpegKind wide;
  wide.quality = 1;
  wide.wide_tables = true;
  kinds.push_back({"16-bit tables", wide});
  JpegKind one;
  one.width = one.height = 1;
  kinds.push_back({"1x1", one});
  one.components = 1;
  kinds.push_back({"1x1 grey", one});
  return kinds;
}

// Small deterministic numbers for rectangles.
class Draw {
 public:
  int64_t Below(int64_t n) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<int64_t>((state_ >> 33) % n);
  }

 private:
  uint64_t state_ = 12345;
};

// Decodes `regions` rectangles at each divisor, the first of them the whole
// image, and expects the pixels of libjpeg's full decode.
void ExpectRegionsOfAFullDecode(const Named& named, int regions, Draw& draw,
                                JpegDecoder& decoder) {
  const std::vector<uint8_t> jpeg = WriteJpeg(named.kind, 3);
  for (int divisor : {1, 2, 4, 8}) {
    const std::vector<uint8_t> full = ReferenceDecode(jpeg, divisor, 3);
    const int64_t width = (named.kind.width + divisor - 1) / divisor;
    const int64_t height = (named.kind.height + divisor - 1) / divisor;
    for (int i = 0; i < regions; ++i) {
      DecodeRegion r;
      r.divisor = divisor;
      if (i == 0) {
        r.width = width;
        r.height = height;
      } else {
        r.left = draw.Below(width);
        r.top = draw.Below(height);
        r.width = 1 + draw.Below(width - r.left);
        r.height = 1 + draw.Below(height - r.top);
      }
      SCOPED_TRACE(testing::Message()
                   << named.name << " 1/" << divisor << " at " << r.left << ", "
                   << r.top << ": " << r.width << " x " << r.height);
      auto header = decoder.Open(jpeg, false);
      ASSERT_TRUE(header.ok()) << header.status();
      ASSERT_EQ(header->width, named.kind.width);
      ASSERT_EQ(header->height, named.kind.height);
      auto image = decoder.Decode(r);
      ASSERT_TRUE(image.ok()) << image.status();
      for (int64_t y = 0; y < r.height; ++y) {
        const uint8_t* got = image->data + y * image->stride;
        const uint8_t* want = full.data() + ((r.top + y) * width + r.left) * 3;
        ASSERT_TRUE(std::equal(got, got + r.width * 3, want)) << "row " << y;
      }
    }
  }
}

TEST(JpegDecoder, ARegionHasThePixelsOfAFullDecode) {
  Draw draw;
  JpegDecoder decoder;
  for (const Named& named : Kinds()) {
    ExpectRegionsOfAFullDecode(named, 25, draw, decoder);
  }
}

// A fuzzer found 1x1 below 2x4 at 1/2: a component that is interpolated in one
// direction and whose inverse DCT is larger than the others' was cropped wrong.
TEST(JpegDecoder, ARegionHasThePixelsOfAFullDecodeForEachSampling) {
  Draw draw;
  JpegDecoder decoder;
  std::vector<std::array<int, 2>> factors;
  for (int h : {1, 2, 4}) {
    for (int v : {1, 2, 4}) factors.push_back({h, v});
  }
  for (const auto& first : factors) {
    for (const auto& second : factors) {
      for (const auto& third : factors) {
        Named named;
        named.kind.width = 67;
        named.kind.height = 45;
        named.kind.sampling = {first, second, third};
        int blocks = 0;
        named.name = "sampling";
        for (const auto& [h, v] : named.kind.sampling) {
          blocks += h * v;
          named.name += " " + std::to_string(h) + "x" + std::to_string(v);
        }
        named.kind.separate_scans = blocks > 10;
        ExpectRegionsOfAFullDecode(named, 4, draw, decoder);
      }
    }
  }
}

TEST(JpegDecoder, GreyOfAGreyImageIsTheImage) {
  JpegKind kind;
  kind.components = 1;
  const std::vector<uint8_t> jpeg = WriteJpeg(kind, 5);
  const std::vector<uint8_t> want = ReferenceDecode(jpeg, 1, 1);
  JpegDecoder decoder;
  ASSERT_TRUE(decoder.Open(jpeg, false).ok());
  auto image = decoder.Decode({1, 0, 0, 64, 48, 1});
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_TRUE(std::equal(want.begin(), want.end(), image->data));
}

TEST(JpegDecoder, CmykAndYcckBecomeRgb) {
  for (bool ycck : {false, true}) {
    for (int channels : {3, 1}) {
      JpegKind kind;
      kind.components = 4;
      kind.ycck = ycck;
      const std::vector<uint8_t> jpeg = WriteJpeg(kind, 6);
      const std::vector<uint8_t> cmyk = ReferenceDecode(jpeg, 1, 4);
      const int64_t pixels = kind.width * kind.height;
      std::vector<uint8_t> want(pixels * 3);
      InvertedCmykRowToRgb(cmyk.data(), pixels, want.data());
      if (channels == 1) {
        std::vector<uint8_t> grey(pixels);
        RgbRowToGray(want.data(), pixels, grey.data());
        want = grey;
      }
      JpegDecoder decoder;
      ASSERT_TRUE(decoder.Open(jpeg, false).ok());
      auto image = decoder.Decode({1, 0, 0, 64, 48, channels});
      ASSERT_TRUE(image.ok()) << image.status();
      EXPECT_TRUE(std::equal(want.begin(), want.end(), image->data));
    }
  }
}

TEST(JpegDecoder, EveryTruncationIsDataLossOrTheSamePixels) {
  for (bool progressive : {false, true}) {
    JpegKind kind;
    kind.progressive = progressive;
    kind.restart_rows = 1;
    const std::vector<uint8_t> jpeg = WriteJpeg(kind, 7);
    const std::vector<uint8_t> full = ReferenceDecode(jpeg, 1, 3);
    JpegDecoder decoder;
    int good = 0;
    for (size_t size = 0; size < jpeg.size(); ++size) {
      // Its own allocation, so that a read past the end is seen.
      const std::vector<uint8_t> cut(jpeg.begin(), jpeg.begin() + size);
      absl::StatusOr<DecodedImage> image = absl::UnknownError("");
      auto header = decoder.Open(cut, true);
      if (header.ok()) image = decoder.Decode({1, 0, 0, 64, 48, 3});
      const absl::Status status =
          header.ok() ? image.status() : header.status();
      if (status.ok()) {
        ++good;
        EXPECT_TRUE(std::equal(full.begin(), full.end(), image->data)) << size;
      } else {
        ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
        if (size > 2) {
          EXPECT_NE(status.message().find("truncated"), std::string::npos)
              << size << ": " << status;
        }
      }
    }
    // Only the end marker, and bits that fill the last byte, may be missing.
    EXPECT_LE(good, 3);
  }
}

// A progressive file may end before its last scans and have an end marker all
// the same. libjpeg smooths over its blocks, which depends on neighbours.
TEST(JpegDecoder, ARegionOfACoarseProgressiveImageIsThatOfTheWhole) {
  JpegKind kind;
  kind.width = 120;
  kind.height = 90;
  kind.progressive = true;
  kind.quality = 60;
  const std::vector<uint8_t> jpeg = WriteJpeg(kind, 3);
  std::vector<size_t> scans;
  for (size_t i = 2; i + 1 < jpeg.size(); ++i) {
    if (jpeg[i] == 0xFF && jpeg[i + 1] == 0xDA) scans.push_back(i);
  }
  ASSERT_GT(scans.size(), 5u);
  for (size_t kept = 1; kept < scans.size(); ++kept) {
    std::vector<uint8_t> coarse(jpeg.begin(), jpeg.begin() + scans[kept]);
    coarse.push_back(0xFF);
    coarse.push_back(0xD9);
    JpegDecoder decoder;
    for (int divisor : {1, 2, 8}) {
      const std::vector<uint8_t> full = ReferenceDecode(coarse, divisor, 3);
      const int64_t width = (kind.width + divisor - 1) / divisor;
      for (int channels : {3, 1}) {
        const DecodeRegion r = {divisor,      64 / divisor, 48 / divisor,
                                24 / divisor, 16 / divisor, channels};
        ASSERT_TRUE(decoder.Open(coarse, false).ok());
        auto image = decoder.Decode(r);
        ASSERT_TRUE(image.ok()) << image.status();
        for (int64_t y = 0; y < r.height; ++y) {
          const uint8_t* want =
              full.data() + ((r.top + y) * width + r.left) * 3;
          std::vector<uint8_t> row(want, want + r.width * 3);
          if (channels == 1) {
            std::vector<uint8_t> gray(r.width);
            RgbRowToGray(want, r.width, gray.data());
            row = gray;
          }
          EXPECT_TRUE(std::equal(row.begin(), row.end(),
                                 image->data + y * image->stride))
              << kept << " scans, 1/" << divisor << ", row " << y;
        }
      }
    }
  }
}

TEST(JpegDecoder, DamageInTheReadRowsIsDataLoss) {
  JpegKind kind;
  kind.width = kind.height = 200;
  std::vector<uint8_t> jpeg = WriteJpeg(kind, 8);
  // A marker where entropy-coded data should go on.
  jpeg[jpeg.size() / 2] = 0xFF;
  jpeg[jpeg.size() / 2 + 1] = 0xD9;
  JpegDecoder decoder;
  ASSERT_TRUE(decoder.Open(jpeg, false).ok());
  auto image = decoder.Decode({1, 0, 0, 200, 200, 3});
  EXPECT_EQ(image.status().code(), absl::StatusCode::kDataLoss);
  // Rows above it are whole.
  ASSERT_TRUE(decoder.Open(jpeg, false).ok());
  EXPECT_TRUE(decoder.Decode({1, 0, 0, 200, 30, 3}).ok());
}

TEST(JpegDecoder, TablesOfOneImageDoNotReachTheNext) {
  // An image without its quantisation tables must fail whatever came before.
  std::vector<uint8_t> jpeg = WriteJpeg({}, 9);
  const std::vector<uint8_t> whole = jpeg;
  for (size_t i = 2; i + 4 < jpeg.size() && jpeg[i + 1] != 0xDA;) {
    const size_t length = 2 + (jpeg[i + 2] << 8 | jpeg[i + 3]);
    if (jpeg[i + 1] == 0xDB) {
      jpeg.erase(jpeg.begin() + i, jpeg.begin() + i + length);
    } else {
      i += length;
    }
  }
  ASSERT_LT(jpeg.size(), whole.size());
  JpegDecoder decoder;
  ASSERT_TRUE(decoder.Open(whole, false).ok());
  ASSERT_TRUE(decoder.Decode({1, 0, 0, 64, 48, 3}).ok());
  auto header = decoder.Open(jpeg, false);
  auto status = header.ok() ? decoder.Decode({1, 0, 0, 64, 48, 3}).status()
                            : header.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
}

// Writes a size into the frame header.
std::vector<uint8_t> Claim(std::vector<uint8_t> jpeg, int width, int height) {
  for (size_t i = 2; i + 9 < jpeg.size();) {
    if (jpeg[i + 1] == 0xC0 || jpeg[i + 1] == 0xC2) {
      jpeg[i + 5] = height >> 8;
      jpeg[i + 6] = height & 255;
      jpeg[i + 7] = width >> 8;
      jpeg[i + 8] = width & 255;
      return jpeg;
    }
    i += 2 + (jpeg[i + 2] << 8 | jpeg[i + 3]);
  }
  ADD_FAILURE() << "no frame header";
  return jpeg;
}

TEST(JpegDecoder, RefusesAbsurdSizesBeforeAllocating) {
  JpegDecoder decoder;
  auto header = decoder.Open(Claim(WriteJpeg({}, 1), 65500, 65500), false);
  ASSERT_EQ(header.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(header.status().message().find("65500 x 65500"), std::string::npos)
      << header.status();
  EXPECT_FALSE(decoder.Open(Claim(WriteJpeg({}, 1), 65535, 1), false).ok());
  EXPECT_FALSE(decoder.Open(Claim(WriteJpeg({}, 1), 0, 100), false).ok());

  // A progressive one needs all coefficients, however small the region.
  JpegKind kind;
  kind.progressive = true;
  const std::vector<uint8_t> large = Claim(WriteJpeg(kind, 1), 13000, 13000);
  ASSERT_TRUE(decoder.Open(large, false).ok());
  auto image = decoder.Decode({8, 0, 0, 16, 16, 3});
  ASSERT_EQ(image.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(image.status().message().find("progressive"), std::string::npos)
      << image.status();
}

TEST(JpegDecoder, RefusesKindsItCannotDecodeAndSaysWhich) {
  JpegKind arithmetic;
  arithmetic.arithmetic = true;
  JpegDecoder decoder;
  auto header = decoder.Open(WriteJpeg(arithmetic, 1), false);
  ASSERT_EQ(header.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(header.status().message().find("arithmetic"), std::string::npos);

  std::vector<uint8_t> twelve = WriteJpeg({}, 1);
  for (size_t i = 2; i + 9 < twelve.size();
       i += 2 + (twelve[i + 2] << 8 | twelve[i + 3])) {
    if (twelve[i + 1] == 0xC0) {
      twelve[i + 4] = 12;
      break;
    }
  }
  header = decoder.Open(twelve, false);
  ASSERT_EQ(header.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(header.status().message().find("12 bits a sample"),
            std::string::npos)
      << header.status();

  // Other kinds of frame: their marker, and what they are.
  for (const auto& [marker, name] : std::vector<std::pair<int, std::string>>{
           {0xC3, "lossless"}, {0xC5, "hierarchical"}, {0xF7, "JPEG-LS"}}) {
    std::vector<uint8_t> other = WriteJpeg({}, 1);
    for (size_t i = 2; i + 9 < other.size();
         i += 2 + (other[i + 2] << 8 | other[i + 3])) {
      if (other[i + 1] == 0xC0) {
        other[i + 1] = static_cast<uint8_t>(marker);
        break;
      }
    }
    header = decoder.Open(other, false);
    ASSERT_EQ(header.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_NE(header.status().message().find(name), std::string::npos)
        << header.status();
  }
}

TEST(JpegDecoder, RefusesThousandsOfScans) {
  JpegKind kind;
  kind.progressive = true;
  std::vector<uint8_t> jpeg = WriteJpeg(kind, 1);
  // Repeat the last scan (it may be decoded any number of times).
  size_t scan = jpeg.size();
  while (!(jpeg[scan - 2] == 0xFF && jpeg[scan - 1] == 0xDA)) --scan;
  const std::vector<uint8_t> last(jpeg.begin() + scan - 2, jpeg.end() - 2);
  jpeg.pop_back();
  jpeg.pop_back();
  for (int i = 0; i < 2000; ++i) {
    jpeg.insert(jpeg.end(), last.begin(), last.end());
  }
  jpeg.push_back(0xFF);
  jpeg.push_back(0xD9);
  JpegDecoder decoder;
  ASSERT_TRUE(decoder.Open(jpeg, false).ok());
  EXPECT_EQ(decoder.Decode({1, 0, 0, 64, 48, 3}).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace millrace::decode
