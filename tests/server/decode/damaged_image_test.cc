// Every kind of image, cut off after each of its bytes and with each of its
// bits flipped: decoded whole and in part it is reported as damaged, or it is
// an image. Under AddressSanitizer, which looks for leaks at the end, this
// shows that no way out of libjpeg, libpng or libwebp leaves memory behind.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "server/decode/image_decoder.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/images/png_writer.h"
#include "tests/testing/images/webp_writer.h"

namespace millrace::decode {
namespace {

using Bytes = std::vector<uint8_t>;

std::vector<std::pair<std::string, Bytes>> Kinds() {
  std::vector<std::pair<std::string, Bytes>> kinds;
  auto jpeg = [&](const std::string& name, auto change) {
    JpegKind kind;
    kind.width = 19;
    kind.height = 17;
    kind.quality = 60;
    kind.optimized = true;  // short tables
    change(kind);
    kinds.emplace_back("JPEG " + name, WriteJpeg(kind, 2));
  };
  jpeg("4:2:0", [](JpegKind&) {});
  jpeg("grey", [](JpegKind& k) { k.components = 1; });
  jpeg("YCCK", [](JpegKind& k) {
    k.components = 4;
    k.ycck = true;
  });
  jpeg("progressive", [](JpegKind& k) { k.progressive = true; });
  jpeg("scan per component", [](JpegKind& k) { k.separate_scans = true; });
  jpeg("restarts", [](JpegKind& k) { k.restart_rows = 1; });
  jpeg("EXIF and XMP", [](JpegKind& k) {
    k.exif = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12,
              1,   3,   0,  1, 0, 0, 0, 6, 0, 0, 0};
    k.xmp = "<x tiff:Orientation=\"6\"/>";
  });
  auto png = [&](const std::string& name, int samples, auto change) {
    PngKind kind;
    kind.width = 13;
    kind.height = 9;
    change(kind);
    const int row = (kind.width * samples * kind.bit_depth + 7) / 8;
    kinds.emplace_back("PNG " + name,
                       WritePng(kind, TestPixels(row, kind.height, 1, 3)));
  };
  png("RGB", 3, [](PngKind&) {});
  png("interlaced", 3, [](PngKind& k) { k.interlaced = true; });
  png("16 bits", 4, [](PngKind& k) {
    k.bit_depth = 16;
    k.color_type = 6;
  });
  png("palette", 1, [](PngKind& k) {
    k.bit_depth = 4;
    k.color_type = 3;
    k.palette = {1, 2, 3, 40, 50, 60, 7, 8, 9};
  });
  png("texts", 1, [](PngKind& k) {
    k.color_type = 0;
    k.texts = 1;
    k.text_bytes = 30;
  });
  auto webp = [&](const std::string& name, bool lossless, bool alpha) {
    WebpKind kind;
    kind.width = 21;
    kind.height = 15;
    kind.lossless = lossless;
    kind.alpha = alpha;
    const Bytes file =
        WriteWebp(kind, TestPixels(kind.width, kind.height, alpha ? 4 : 3, 4));
    kinds.emplace_back("WebP " + name, file);
    if (!alpha) return;
    kinds.emplace_back("animated WebP " + name,
                       JoinWebpChunks({WebpCanvas(30, 20, true),
                                       {"ANIM", Bytes(6)},
                                       WebpFrame(file, 4, 2, 21, 15)}));
  };
  webp("lossy", false, false);
  webp("lossless", true, false);
  webp("lossy, alpha", false, true);
  webp("lossless, alpha", true, true);
  return kinds;
}

class DamagedImage : public testing::Test {
 protected:
  // Whether it could be decoded, whole and in part.
  bool Decode(const Bytes& bytes) {
    bool good = true;
    for (bool part : {false, true}) {
      auto header = decoder_.Open(bytes, true);
      if (!header.ok()) {
        EXPECT_EQ(header.status().code(), absl::StatusCode::kDataLoss)
            << header.status();
        return false;
      }
      // A changed size may be large, and decoding it right and slow.
      if (header->width * header->height > 1 << 18) continue;
      DecodeRegion region{1, 0, 0, header->width, header->height, 3};
      if (part) {
        const int64_t d = header->max_divisor > 1 ? 2 : 1;
        const int64_t width = (header->width + d - 1) / d;
        const int64_t height = (header->height + d - 1) / d;
        region = {static_cast<int>(d), width / 3,      height / 3,
                  1 + width / 4,       1 + height / 4, 1};
      }
      auto image = decoder_.Decode(region);
      if (image.ok()) {
        for (int64_t y = 0; y < region.height; ++y) {
          const uint8_t* row = image->data + y * image->stride;
          for (int64_t i = 0; i < region.width * region.channels; ++i) {
            sum_ += row[i];
          }
        }
      } else {
        EXPECT_EQ(image.status().code(), absl::StatusCode::kDataLoss)
            << image.status();
      }
      good = good && image.ok();
    }
    return good;
  }

  ImageDecoder decoder_;  // one for all, as a worker has it
  uint64_t sum_ = 0;      // so that every pixel is read
};

TEST_F(DamagedImage, CutOffAnywhere) {
  for (const auto& [name, whole] : Kinds()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(Decode(whole));
    size_t bad = 0;
    for (size_t size = 0; size < whole.size(); ++size) {
      // Its own allocation, so that a read past the end is seen.
      bad += !Decode(Bytes(whole.begin(), whole.begin() + size));
    }
    EXPECT_GT(bad, whole.size() / 2);
    ASSERT_TRUE(Decode(whole));
  }
}

TEST_F(DamagedImage, WithAnyBitFlipped) {
  for (const auto& [name, whole] : Kinds()) {
    SCOPED_TRACE(name);
    size_t bad = 0;
    for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
      Bytes changed = whole;
      changed[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      bad += !Decode(changed);
    }
    EXPECT_GT(bad, 50u);
    ASSERT_TRUE(Decode(whole));
  }
}

}  // namespace
}  // namespace millrace::decode
