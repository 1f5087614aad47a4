#include "server/decode/webp_decoder.h"

#include <gtest/gtest.h>
#include <webp/decode.h>

#include <algorithm>
#include <string>
#include <vector>

#include "server/decode/limits.h"
#include "server/decode/pixel_rows.h"
#include "server/decode/webp_container.h"
#include "server/decode/webp_memory.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/images/webp_writer.h"

namespace millrace::decode {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes Write(const WebpKind& kind, uint64_t seed = 3) {
  return WriteWebp(
      kind, TestPixels(kind.width, kind.height, kind.alpha ? 4 : 3, seed));
}

// Rows of a decoded image without what lies between them.
Bytes Packed(const DecodedImage& image, const DecodeRegion& region) {
  Bytes pixels;
  for (int64_t y = 0; y < region.height; ++y) {
    const uint8_t* row = image.data + y * image.stride;
    pixels.insert(pixels.end(), row, row + region.width * region.channels);
  }
  return pixels;
}

// The rows and columns of `region` of RGB pixels `width` wide.
Bytes Cut(const Bytes& rgb, int64_t width, const DecodeRegion& region) {
  Bytes pixels;
  for (int64_t y = 0; y < region.height; ++y) {
    const uint8_t* row =
        rgb.data() + ((region.top + y) * width + region.left) * 3;
    if (region.channels == 3) {
      pixels.insert(pixels.end(), row, row + region.width * 3);
    } else {
      Bytes gray(region.width);
      RgbRowToGray(row, region.width, gray.data());
      pixels.insert(pixels.end(), gray.begin(), gray.end());
    }
  }
  return pixels;
}

std::string MessageOf(const Bytes& webp) {
  WebpDecoder decoder;
  auto header = decoder.Open(webp, true);
  absl::Status status = header.status();
  if (status.ok()) {
    status =
        decoder.Decode({1, 0, 0, header->width, header->height, 3}).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  return std::string(status.message());
}

TEST(WebpDecoder, ARegionHasThePixelsOfAFullDecode) {
  uint64_t state = 5;
  auto below = [&](int64_t n) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<int64_t>((state >> 33) % n);
  };
  WebpDecoder decoder;
  for (bool lossless : {false, true}) {
    for (bool alpha : {false, true}) {
      for (const auto& [width, height] : std::vector<std::pair<int, int>>{
               {1, 1}, {2, 3}, {97, 75}, {64, 130}}) {
        const Bytes webp = Write({width, height, lossless, alpha, 60});
        const Bytes full = ReferenceWebp(webp);
        ASSERT_EQ(full.size(), static_cast<size_t>(width * height * 3));
        for (int i = 0; i < 60; ++i) {
          DecodeRegion r{1, 0, 0, width, height, i % 2 == 0 ? 3 : 1};
          if (i > 1) {
            r.left = below(width);
            r.top = below(height);
            r.width = 1 + below(width - r.left);
            r.height = 1 + below(height - r.top);
          }
          SCOPED_TRACE(testing::Message()
                       << lossless << alpha << " " << width << "x" << height
                       << " at " << r.left << ", " << r.top << ": " << r.width
                       << " x " << r.height);
          auto header = decoder.Open(webp, false);
          ASSERT_TRUE(header.ok()) << header.status();
          ASSERT_EQ(header->width, width);
          ASSERT_EQ(header->height, height);
          auto image = decoder.Decode(r);
          ASSERT_TRUE(image.ok()) << image.status();
          ASSERT_EQ(Packed(*image, r), Cut(full, width, r));
        }
      }
    }
  }
}

TEST(WebpDecoder, TheFirstFrameOfAnAnimationLiesOnABlackCanvas) {
  const Bytes picture = Write({21, 15, true});
  const Bytes other = Write({40, 30, false}, 9);
  const Bytes webp = JoinWebpChunks({WebpCanvas(40, 30, true),
                                     {"ANIM", {255, 255, 255, 255, 0, 0}},
                                     WebpFrame(picture, 6, 8, 21, 15),
                                     WebpFrame(other, 0, 0, 40, 30)});
  const Bytes rgb = ReferenceWebp(picture);
  Bytes canvas(40 * 30 * 3);
  for (int y = 0; y < 15; ++y) {
    std::copy_n(rgb.begin() + y * 21 * 3, 21 * 3,
                canvas.begin() + ((8 + y) * 40 + 6) * 3);
  }
  WebpDecoder decoder;
  for (const DecodeRegion& r :
       {DecodeRegion{1, 0, 0, 40, 30, 3}, DecodeRegion{1, 0, 0, 40, 30, 1},
        DecodeRegion{1, 3, 5, 9, 7, 3}, DecodeRegion{1, 8, 10, 5, 5, 3},
        DecodeRegion{1, 8, 10, 5, 5, 1}, DecodeRegion{1, 30, 2, 4, 20, 3}}) {
    auto header = decoder.Open(webp, false);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->width, 40);
    EXPECT_EQ(header->height, 30);
    auto image = decoder.Decode(r);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(Packed(*image, r), Cut(canvas, 40, r)) << r.left << " " << r.top;
  }
}

TEST(WebpDecoder, EveryTruncationIsDataLossOrTheSamePixels) {
  for (bool lossless : {false, true}) {
    std::vector<WebpChunk> chunks = ReadWebpChunks(Write({20, 14, lossless}));
    chunks.insert(chunks.begin(), WebpCanvas(20, 14, false));
    chunks.push_back({"EXIF", Bytes(30, 1)});
    const Bytes webp = JoinWebpChunks(chunks);
    const Bytes full = ReferenceWebp(webp);
    const size_t picture_end = webp.size() - 38;
    WebpDecoder decoder;
    for (size_t size = 0; size < webp.size(); ++size) {
      // Its own allocation, so that a read past the end is seen.
      const Bytes cut(webp.begin(), webp.begin() + size);
      auto header = decoder.Open(cut, true);
      if (size + 1 >= picture_end) {  // a byte of padding may be missing
        ASSERT_TRUE(header.ok() || size < picture_end) << header.status();
      }
      if (!header.ok()) {
        ASSERT_EQ(header.status().code(), absl::StatusCode::kDataLoss);
        if (size > 12) {
          EXPECT_NE(header.status().message().find("truncated"),
                    std::string::npos)
              << size << ": " << header.status();
        }
        continue;
      }
      EXPECT_GE(size + 1, picture_end);
      const DecodeRegion all{1, 0, 0, 20, 14, 3};
      auto image = decoder.Decode(all);
      ASSERT_TRUE(image.ok()) << size << ": " << image.status();
      EXPECT_EQ(Packed(*image, all), full);
    }
  }
}

// The bit stream has no checksums. Whatever changes, it is reported or decoded
// to some pixels; under a sanitizer no byte beside them is touched.
TEST(WebpDecoder, EveryFlippedBitIsDataLossOrSomePixels) {
  WebpDecoder decoder;
  for (bool lossless : {false, true}) {
    const Bytes webp = Write({20, 14, lossless});
    int bad = 0;
    int good = 0;
    for (size_t bit = 0; bit < webp.size() * 8; ++bit) {
      Bytes changed = webp;
      changed[bit / 8] ^= 1 << bit % 8;
      auto header = decoder.Open(changed, true);
      absl::Status status = header.status();
      if (header.ok()) {
        const DecodeRegion all{1, 0, 0, header->width, header->height, 3};
        auto image = decoder.Decode(all);
        status = image.status();
        if (image.ok()) Packed(*image, all);
      }
      ASSERT_TRUE(status.ok() || status.code() == absl::StatusCode::kDataLoss)
          << bit << ": " << status;
      (status.ok() ? good : bad)++;
    }
    EXPECT_GT(bad, 50);
    EXPECT_GT(good, 50);
  }
}

TEST(WebpDecoder, HeadersThatContradictEachOtherAreRefused) {
  const Bytes picture = Write({20, 14});
  std::vector<WebpChunk> chunks = ReadWebpChunks(picture);
  chunks.insert(chunks.begin(), WebpCanvas(20, 15, false));
  EXPECT_NE(MessageOf(JoinWebpChunks(chunks)).find("20 x 15"),
            std::string::npos);

  EXPECT_NE(MessageOf(JoinWebpChunks({WebpCanvas(20, 14, true),
                                      WebpFrame(picture, 2, 0, 20, 14)}))
                .find("outside"),
            std::string::npos);
  EXPECT_NE(MessageOf(JoinWebpChunks({WebpFrame(picture, 0, 0, 20, 14)}))
                .find("no canvas"),
            std::string::npos);
  EXPECT_NE(
      MessageOf(JoinWebpChunks({WebpCanvas(20, 14, false)})).find("no picture"),
      std::string::npos);
  EXPECT_NE(MessageOf(JoinWebpChunks({{"VP8 ", Bytes(40, 'x')}}))
                .find("no valid header"),
            std::string::npos);
  // A whole file where the picture should be is no picture.
  EXPECT_NE(
      MessageOf(JoinWebpChunks({{"VP8 ", picture}})).find("no valid header"),
      std::string::npos);
}

TEST(WebpDecoder, RefusesAbsurdSizesBeforeAllocating) {
  // 16383 x 16383 in the five bytes that a lossless picture begins with.
  Bytes head = {0x2F, 0xFE, 0xBF, 0xFF, 0x0F};
  head.resize(64);
  EXPECT_NE(MessageOf(JoinWebpChunks({{"VP8L", head}})).find("16383 x 16383"),
            std::string::npos);
  // 12000 x 12000 are few enough pixels, and 576 MB in libwebp.
  const uint32_t sizes = 11999u | 11999u << 14;
  for (int i = 0; i < 4; ++i) head[1 + i] = sizes >> (8 * i) & 255;
  WebpDecoder decoder;
  const Bytes large = JoinWebpChunks({{"VP8L", head}});
  auto header = decoder.Open(large, false);
  ASSERT_TRUE(header.ok()) << header.status();
  // Tables and the pictures of transforms count, too.
  EXPECT_GE(header->whole_bytes,
            int64_t{5} * 12000 * 12000 + (int64_t{4} << 20));
  auto image = decoder.Decode({1, 0, 0, 16, 16, 3});
  ASSERT_EQ(image.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(image.status().message().find("lossless"), std::string::npos)
      << image.status();
  // A canvas that only its header claims.
  EXPECT_NE(
      MessageOf(JoinWebpChunks({WebpCanvas(1 << 24, 1 << 24, true),
                                WebpFrame(Write({20, 14}), 0, 0, 20, 14)}))
          .find("16777216 x 16777216"),
      std::string::npos);
}

// Writes the bit stream of a lossless picture, whose pixels are all black:
// every Huffman code has one symbol, which takes no bits.
class LosslessBits {
 public:
  LosslessBits(int width, int height) {
    Put(0x2F, 8);
    Put(width - 1, 14);
    Put(height - 1, 14);
    Put(0, 1);  // no alpha
    Put(0, 3);  // version
  }
  void Put(uint64_t value, int count) {
    for (int i = 0; i < count; ++i, ++bits_) {
      if (bits_ % 8 == 0) bytes_.push_back(0);
      bytes_.back() |= (value >> i & 1) << bits_ % 8;
    }
  }
  void PutCode(uint32_t symbol) {
    Put(1, 1);  // simple
    Put(0, 1);  // of one symbol
    Put(1, 1);  // of 8 bits
    Put(symbol, 8);
  }
  void PutGroup(uint32_t green = 0, uint32_t red = 0) {
    for (uint32_t symbol : {green, red, 0u, 0u, 0u}) PutCode(symbol);
  }
  // Behind the last group.
  Bytes Webp() {
    Put(0, 64);
    return JoinWebpChunks({{"VP8L", bytes_}});
  }

 private:
  Bytes bytes_;
  int bits_ = 0;
};

TEST(WebpDecoder, TablesBeyondAllMeasureAreDamage) {
  // 20 KB each: the first leave no room for the pixels, the others have none.
  for (uint32_t groups : {350, 1000}) {
    LosslessBits bits(1024, 1024);
    bits.Put(0, 1);   // no transform
    bits.Put(1, 1);   // a colour cache, which makes tables large,
    bits.Put(11, 4);  // of 2^11 colours
    bits.Put(1, 1);   // several groups of codes
    bits.Put(0, 3);   // for blocks of 4 x 4 pixels;
    bits.Put(0, 1);   // their picture has no colour cache,
    bits.PutGroup((groups - 1) & 255, (groups - 1) >> 8);  // names the last
    for (uint32_t i = 0; i < groups; ++i) bits.PutGroup();
    const std::string message = MessageOf(bits.Webp());
    EXPECT_NE(message.find("malicious"), std::string::npos) << message;
  }
}

// A few bytes whose transforms and groups have pictures of 4 MB each.
TEST(WebpDecoder, AsManyAndAsLargeSubImagesAsThereMayBeAreDecoded) {
  constexpr int kSide = 4000;
  LosslessBits bits(kSide, kSide);
  for (uint32_t transform : {0, 1}) {  // predictor, colour
    bits.Put(1, 1);
    bits.Put(transform, 2);
    bits.Put(0, 3);  // for blocks of 4 x 4 pixels
    bits.Put(0, 1);  // no colour cache
    bits.PutGroup();
  }
  bits.Put(0, 1);  // no more transforms
  bits.Put(0, 1);  // no colour cache
  bits.Put(1, 1);  // groups of codes
  bits.Put(0, 3);  // for blocks of 4 x 4 pixels
  bits.Put(0, 1);  // their picture has no colour cache
  bits.PutGroup();
  bits.PutGroup();  // the one group
  const Bytes webp = bits.Webp();
  WebpDecoder decoder;
  auto header = decoder.Open(webp, false);
  ASSERT_TRUE(header.ok()) << header.status();
  auto image = decoder.Decode({1, 0, 0, kSide, 2, 3});
  EXPECT_TRUE(image.ok()) << image.status();
}

// 16383 columns, as many as there may be: memory of a lossy picture grows with
// them.
TEST(WebpDecoder, TheWidestPictureIsWithinItsBudget) {
  for (bool lossless : {false, true}) {
    const Bytes webp = Write({16383, 40, lossless});
    WebpDecoder decoder;
    auto header = decoder.Open(webp, false);
    ASSERT_TRUE(header.ok()) << header.status();
    const DecodeRegion all{1, 0, 0, 16383, 40, 3};
    auto image = decoder.Decode(all);
    ASSERT_TRUE(image.ok()) << image.status();
    Bytes rgb(16383 * 40 * 3);
    const WebpMemoryBudget budget(int64_t{256} << 20);
    ASSERT_NE(WebPDecodeRGBInto(webp.data(), webp.size(), rgb.data(),
                                rgb.size(), 16383 * 3),
              nullptr);
    // What the header announces is what libwebp takes, or more.
    EXPECT_LE(budget.used(), header->whole_bytes);
    // Grey is made of colours.
    EXPECT_EQ(header->decoded_channels, 3);
  }
}

TEST(WebpMemoryBudget, LibwebpTakesItsMemoryThroughIt) {
  const Bytes webp = Write({200, 150, true});
  Bytes rgb(200 * 150 * 3);
  auto decode = [&] {
    return WebPDecodeRGBInto(webp.data(), webp.size(), rgb.data(), rgb.size(),
                             200 * 3) != nullptr;
  };
  {
    const WebpMemoryBudget budget(int64_t{16} << 20);
    EXPECT_TRUE(decode());
    EXPECT_FALSE(budget.exceeded());
    EXPECT_GE(budget.used(), 4 * 200 * 150);
  }
  {
    const WebpMemoryBudget budget(4 * 200 * 150);
    EXPECT_FALSE(decode());
    EXPECT_TRUE(budget.exceeded());
  }
  EXPECT_TRUE(decode());
}

TEST(WebpContainer, FindsExifAndXmpBehindThePicture) {
  std::vector<WebpChunk> chunks = ReadWebpChunks(Write({20, 14}));
  chunks.insert(chunks.begin(), WebpCanvas(20, 14, false));
  chunks.push_back({"EXIF", {'I', 'I', 42}});
  chunks.push_back({"XMP ", {'<', 'x'}});
  const Bytes webp = JoinWebpChunks(chunks);
  auto file = ReadWebpContainer(webp);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->exif.size(), 3u);
  EXPECT_EQ(file->xmp.size(), 2u);
  EXPECT_FALSE(file->animated);
}

}  // namespace
}  // namespace millrace::decode
