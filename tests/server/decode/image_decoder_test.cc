#include "server/decode/image_decoder.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/byte_size.h"
#include "server/decode/exif.h"
#include "server/decode/limits.h"
#include "server/decode/png_orientation.h"
#include "tests/testing/images/claimed_size.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/images/png_writer.h"
#include "tests/testing/images/webp_writer.h"

namespace millrace::decode {
namespace {

std::vector<uint8_t> ReadGolden(const std::string& name) {
  std::ifstream in("tests/testdata/images/" + name, std::ios::binary);
  EXPECT_TRUE(in.good()) << name;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

struct Picture {
  int64_t width = 0;
  int64_t height = 0;
  std::vector<uint8_t> pixels;
};

Picture DecodeAll(const std::vector<uint8_t>& bytes, int channels,
                  bool exif = false) {
  ImageDecoder decoder;
  auto header = decoder.Open(bytes, exif);
  EXPECT_TRUE(header.ok()) << header.status();
  if (!header.ok()) return {};
  auto image =
      decoder.Decode({1, 0, 0, header->width, header->height, channels});
  EXPECT_TRUE(image.ok()) << image.status();
  if (!image.ok()) return {};
  Picture picture{header->width, header->height, {}};
  for (int64_t y = 0; y < header->height; ++y) {
    const uint8_t* row = image->data + y * image->stride;
    picture.pixels.insert(picture.pixels.end(), row,
                          row + header->width * channels);
  }
  return picture;
}

void ExpectGolden(const std::string& input, const std::string& name,
                  int channels, bool exif = false) {
  SCOPED_TRACE(input);
  const Picture got = DecodeAll(ReadGolden(input), channels, exif);
  const Picture want = DecodeAll(ReadGolden(name + ".expected.png"), channels);
  EXPECT_EQ(got.width, want.width);
  EXPECT_EQ(got.height, want.height);
  EXPECT_EQ(got.pixels, want.pixels);
}

TEST(ImageDecoder, AgreesWithPillowOnJpegs) {
  for (const char* name :
       {"jpeg_420", "jpeg_progressive", "jpeg_gray", "jpeg_cmyk", "jpeg_411",
        "jpeg_440", "jpeg_410", "jpeg_asymmetric", "jpeg_large_chroma",
        "jpeg_separate_scans", "jpeg_restarts", "jpeg_wide_tables", "jpeg_rgb",
        "jpeg_ycck", "jpeg_cmyk_bare", "jpeg_gray_22"}) {
    ExpectGolden(std::string(name) + ".jpg", name, 3);
  }
  ExpectGolden("jpeg_to_gray.jpg", "jpeg_to_gray", 1);
}

TEST(ImageDecoder, AgreesWithPillowOnPngs) {
  for (const char* name : {"png_rgb", "png_gray", "png_1bit", "png_palette",
                           "png_palette_transparent", "png_rgba", "png_la"}) {
    ExpectGolden(std::string(name) + ".png", name, 3);
  }
  ExpectGolden("png_to_gray.png", "png_to_gray", 1);
}

TEST(ImageDecoder, AgreesWithPillowOnWebps) {
  for (const char* name : {"webp_lossy", "webp_lossless", "webp_alpha",
                           "webp_lossless_alpha", "webp_animated"}) {
    ExpectGolden(std::string(name) + ".webp", name, 3);
  }
  ExpectGolden("webp_to_gray.webp", "webp_to_gray", 1);
  ExpectGolden("webp_exif.webp", "webp_exif", 3, true);
}

TEST(ImageDecoder, OfSeveralPicturesInAJpegTheFirstIsRead) {
  JpegKind kind;
  const std::vector<uint8_t> first = WriteJpeg(kind, 1);
  kind.width = 30;
  const std::vector<uint8_t> second = WriteJpeg(kind, 2);
  std::vector<uint8_t> both = first;  // as an MPO has them
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(DecodeAll(both, 3).pixels, DecodeAll(first, 3).pixels);
}

// Grey of a colour image is Pillow's convert("L") of its RGB, whatever the
// format; not the luma plane of the JPEG, which differs by rounding.
TEST(ImageDecoder, GreyIsComputedFromRgb) {
  const std::vector<uint8_t> jpeg = WriteJpeg({}, 1);
  const Picture rgb = DecodeAll(jpeg, 3);
  const Picture gray = DecodeAll(jpeg, 1);
  for (size_t i = 0; i < gray.pixels.size(); ++i) {
    const uint8_t* p = &rgb.pixels[i * 3];
    EXPECT_EQ(gray.pixels[i],
              (p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16);
  }
  EXPECT_NE(gray.pixels, ReferenceDecode(jpeg, 1, 1));
}

TEST(ImageDecoder, TurnsUprightAsPillow) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string name = "exif_" + std::to_string(orientation);
    ExpectGolden(name + ".jpg", name, 3, true);
  }
  // Only when asked.
  const Picture lying = DecodeAll(ReadGolden("exif_6.jpg"), 3);
  EXPECT_EQ(lying.width, 24);
  EXPECT_EQ(lying.height, 15);
}

TEST(ImageDecoder, ARegionOfATurnedImageIsThatOfTheUprightOne) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::vector<uint8_t> bytes =
        ReadGolden("exif_" + std::to_string(orientation) + ".jpg");
    const Picture full = DecodeAll(bytes, 3, true);
    ImageDecoder decoder;
    ASSERT_TRUE(decoder.Open(bytes, true).ok());
    const DecodeRegion r = {1, 3, 5, 9, 7, 3};
    auto image = decoder.Decode(r);
    ASSERT_TRUE(image.ok()) << image.status();
    for (int64_t y = 0; y < r.height; ++y) {
      const uint8_t* got = image->data + y * image->stride;
      EXPECT_TRUE(std::equal(
          got, got + r.width * 3,
          full.pixels.data() + ((r.top + y) * full.width + r.left) * 3))
          << "orientation " << orientation << ", row " << y;
    }
  }
}

TEST(ImageOrientation, IgnoresBlocksThatMakeNoSense) {
  const std::vector<uint8_t> good = {'I',  'I', 42, 0, 8, 0, 0, 0,  // header
                                     1,    0,                       // entries
                                     0x12, 1,   3,  0, 1, 0, 0, 0, 6, 0, 0, 0};
  EXPECT_EQ(ImageOrientation(good, {}), 6);
  for (size_t n = 0; n < good.size(); ++n) {
    const std::vector<uint8_t> cut(good.begin(), good.begin() + n);
    EXPECT_EQ(ImageOrientation(cut, {}), 1) << n;
  }
  std::vector<uint8_t> bad = good;
  bad[18] = 9;
  EXPECT_EQ(ImageOrientation(bad, {}), 1);
  bad = good;
  bad[4] = bad[5] = bad[6] = bad[7] = 0xFF;  // a directory far outside
  EXPECT_EQ(ImageOrientation(bad, {}), 1);
  const std::vector<uint8_t> big = {'M',  'M', 0, 42, 0, 0, 0, 8, 0, 1, 1,
                                    0x12, 0,   3, 0,  0, 0, 1, 0, 3, 0, 0};
  EXPECT_EQ(ImageOrientation(big, {}), 3);
}

std::vector<uint8_t> ExifOf(int type, int orientation) {
  std::vector<uint8_t> exif = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0};
  for (int value : {0x12, 1, type, 0, 1, 0, 0, 0, orientation, 0, 0, 0}) {
    exif.push_back(static_cast<uint8_t>(value));
  }
  return exif;
}

TEST(ImageOrientation, XmpIsAskedWhenExifHasNone) {
  auto of = [](std::vector<uint8_t> exif, const std::string& xmp) {
    const std::vector<uint8_t> text(xmp.begin(), xmp.end());
    return ImageOrientation(exif, text);
  };
  constexpr int kShort = 3;
  EXPECT_EQ(of({}, ""), 1);
  EXPECT_EQ(of({}, "<rdf tiff:Orientation=\"6\"/>"), 6);
  EXPECT_EQ(of({}, "<tiff:Orientation>8</tiff:Orientation>"), 8);
  EXPECT_EQ(of({}, "tiff:Orientation tiff:Orientation=\"3\""), 3);
  EXPECT_EQ(of({}, "tiff:Orientation=\"9\""), 1);
  EXPECT_EQ(of({}, "tiff:Orientation=\""), 1);
  EXPECT_EQ(of({}, "tiff:Orientation"), 1);
  EXPECT_EQ(of(ExifOf(kShort, 1), "tiff:Orientation=\"6\""), 1);
  std::vector<uint8_t> named = {'E', 'x', 'i', 'f', 0, 0};
  const std::vector<uint8_t> exif = ExifOf(kShort, 5);
  named.insert(named.end(), exif.begin(), exif.end());
  EXPECT_EQ(of(named, ""), 5);
  for (int type : {1, 3, 4}) EXPECT_EQ(of(ExifOf(type, 7), ""), 7) << type;
  EXPECT_EQ(of(ExifOf(2, 7), ""), 1);  // a text
}

// A block with one entry: the orientation, `count` values of a type. `data`
// stands in the entry, or behind the directory when it is longer.
std::vector<uint8_t> TypedExif(bool little, uint32_t type, uint32_t count,
                               const std::vector<uint8_t>& data) {
  std::vector<uint8_t> exif;
  const auto put = [&](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      exif.push_back(value >> 8 * (little ? i : bytes - 1 - i) & 255);
    }
  };
  const char order = little ? 'I' : 'M';
  exif.assign({static_cast<uint8_t>(order), static_cast<uint8_t>(order)});
  put(42, 2);
  put(8, 4);
  put(1, 2);
  put(0x0112, 2);
  put(type, 2);
  put(count, 4);
  if (data.size() <= 4) {
    exif.insert(exif.end(), data.begin(), data.end());
    exif.resize(22);
    put(0, 4);
  } else {
    put(26, 4);
    put(0, 4);
    exif.insert(exif.end(), data.begin(), data.end());
  }
  return exif;
}

// SLONG was taken for upright, so such photographs were trained on lying down.
// The results are those of Pillow 13.0, but for BYTE, which it passes over.
TEST(ImageOrientation, HasAnyTypeOfNumberThatPillowTakes) {
  struct Case {
    const char* name;
    uint32_t type;
    uint32_t count;
    std::vector<uint8_t> big_endian;
    int orientation;
  };
  const Case cases[] = {
      {"BYTE", 1, 1, {6}, 6},
      {"two BYTEs", 1, 2, {6, 6}, 1},
      {"ASCII", 2, 2, {'6', 0}, 1},
      {"SHORT", 3, 1, {0, 6}, 6},
      {"two SHORTs", 3, 2, {0, 6, 0, 3}, 6},
      {"three SHORTs", 3, 3, {0, 6, 0, 3, 0, 3}, 6},
      {"LONG", 4, 1, {0, 0, 0, 6}, 6},
      {"RATIONAL", 5, 1, {0, 0, 0, 12, 0, 0, 0, 2}, 6},
      {"RATIONAL 13/2", 5, 1, {0, 0, 0, 13, 0, 0, 0, 2}, 1},
      {"RATIONAL 6/0", 5, 1, {0, 0, 0, 6, 0, 0, 0, 0}, 1},
      {"SBYTE", 6, 1, {6}, 6},
      {"UNDEFINED", 7, 1, {6}, 1},
      {"SSHORT", 8, 1, {0, 6}, 6},
      {"SLONG", 9, 1, {0, 0, 0, 6}, 6},
      {"SLONG -6", 9, 1, {255, 255, 255, 250}, 1},
      {"SLONG 9", 9, 1, {0, 0, 0, 9}, 1},
      {"SRATIONAL",
       10,
       1,
       {255, 255, 255, 250, 255, 255, 255, 255},
       6},  // -6 / -1
      {"FLOAT", 11, 1, {0x40, 0xC0, 0, 0}, 6},
      {"FLOAT 6.5", 11, 1, {0x40, 0xD0, 0, 0}, 1},
      {"DOUBLE", 12, 1, {0x40, 0x18, 0, 0, 0, 0, 0, 0}, 6},
      {"IFD", 13, 1, {0, 0, 0, 6}, 6},
      {"LONG8", 16, 1, {0, 0, 0, 0, 0, 0, 0, 6}, 6},
      // No orientation at all: XMP is asked.
      {"unknown type", 99, 1, {0, 0, 0, 6}, 3},
      {"no value", 3, 0, {0, 6}, 3},
      {"more values than there are", 3, 0xFFFFFFFF, {0, 6, 0, 6, 0, 6}, 3},
  };
  const std::string text = "tiff:Orientation=\"3\"";
  const std::vector<uint8_t> xmp(text.begin(), text.end());
  for (const Case& c : cases) {
    for (bool little : {false, true}) {
      SCOPED_TRACE(std::string(c.name) + (little ? ", II" : ", MM"));
      std::vector<uint8_t> data = c.big_endian;
      if (little) {
        // Each number's bytes in the other order.
        const size_t each = c.type == 5 || c.type == 10  ? 4
                            : c.type == 3                ? 2
                            : c.type == 1 || c.type == 2 ? 1
                                                         : data.size();
        for (size_t at = 0; at < data.size(); at += each) {
          std::reverse(data.begin() + at, data.begin() + at + each);
        }
      }
      const std::vector<uint8_t> exif =
          TypedExif(little, c.type, c.count, data);
      EXPECT_EQ(ImageOrientation(exif, xmp), c.orientation);
      // Cut off anywhere it is read without a step outside.
      for (size_t n = 0; n < exif.size(); ++n) {
        const std::vector<uint8_t> cut(exif.begin(), exif.begin() + n);
        const int orientation = ImageOrientation(cut, {});
        EXPECT_TRUE(orientation == 1 || orientation == c.orientation) << n;
      }
    }
  }
}

TEST(ImageDecoder, AnOrientationInXmpAloneIsFollowed) {
  JpegKind kind;
  kind.xmp = "<x:xmpmeta tiff:Orientation=\"6\">";
  EXPECT_EQ(DecodeAll(WriteJpeg(kind, 1), 3, true).width, kind.height);
  EXPECT_EQ(DecodeAll(WriteJpeg(kind, 1), 3, false).width, kind.width);
  kind.exif = ExifOf(3, 1);
  EXPECT_EQ(DecodeAll(WriteJpeg(kind, 1), 3, true).width, kind.width);
}

TEST(ImageDecoder, APngMayNameItsOrientationBehindThePixels) {
  PngKind kind;
  const std::vector<uint8_t> pixels = TestPixels(kind.width, kind.height, 3, 4);
  auto width = [&] { return DecodeAll(WritePng(kind, pixels), 3, true).width; };
  EXPECT_EQ(width(), kind.width);
  kind.last_chunk = "eXIf";
  kind.last_data = ExifOf(3, 6);
  EXPECT_EQ(width(), kind.height);
  const std::string xmp =
      std::string("XML:com.adobe.xmp\0\0\0\0\0", 22) + "tiff:Orientation=\"8\"";
  kind.last_chunk = "iTXt";
  kind.last_data.assign(xmp.begin(), xmp.end());
  EXPECT_EQ(width(), kind.height);
  // Every prefix is read without a step beyond it.
  const std::vector<uint8_t> png = WritePng(kind, pixels);
  for (size_t size = 8; size < png.size(); ++size) {
    const std::vector<uint8_t> cut(png.begin(), png.begin() + size);
    const int orientation = PngOrientation(cut);
    EXPECT_TRUE(orientation == 1 || orientation == 8) << size;
  }
}

// --- Class numbers --------------------------------------------------------

absl::StatusOr<std::vector<uint8_t>> DecodeIndex(
    const std::vector<uint8_t>& bytes) {
  ImageDecoder decoder;
  auto header = decoder.Open(bytes, false);
  if (!header.ok()) return header.status();
  DecodeRegion region{1, 0, 0, header->width, header->height, 1};
  region.index = true;
  auto image = decoder.Decode(region);
  if (!image.ok()) return image.status();
  std::vector<uint8_t> pixels;
  for (int64_t y = 0; y < header->height; ++y) {
    const uint8_t* row = image->data + y * image->stride;
    pixels.insert(pixels.end(), row, row + header->width);
  }
  return pixels;
}

TEST(ImageDecoder, IndexIsWhatAPaletteOrGreyPngStores) {
  for (int color_type : {0, 3}) {
    for (int depth : {1, 2, 4, 8}) {
      for (bool interlaced : {false, true}) {
        PngKind kind;
        kind.color_type = color_type;
        kind.bit_depth = depth;
        kind.interlaced = interlaced;
        // Fewer colours than numbers, as masks have it.
        if (color_type == 3) kind.palette = {10, 20, 30, 40, 50, 60};
        const std::vector<uint8_t> numbers =
            TestPixels(kind.width, kind.height, 1, 4);
        const int stride = (kind.width * depth + 7) / 8;
        std::vector<uint8_t> want;
        std::vector<uint8_t> rows(stride * kind.height);
        for (int y = 0; y < kind.height; ++y) {
          for (int x = 0; x < kind.width; ++x) {
            const int value = numbers[y * kind.width + x] & ((1 << depth) - 1);
            want.push_back(static_cast<uint8_t>(value));
            rows[y * stride + x * depth / 8] |= value
                                                << (8 - depth - x * depth % 8);
          }
        }
        auto got = DecodeIndex(WritePng(kind, rows));
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_EQ(*got, want) << color_type << " " << depth;
      }
    }
  }
}

TEST(ImageDecoder, IndexOfAnImageOfColoursIsRefused) {
  auto message = [](const std::vector<uint8_t>& bytes) {
    const absl::Status status = DecodeIndex(bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_NE(status.message().find("INDEX"), std::string::npos) << status;
    return std::string(status.message());
  };
  EXPECT_NE(message(WriteJpeg({}, 1)).find("JPEG"), std::string::npos);
  EXPECT_NE(message(ReadGolden("webp_lossless.webp")).find("WebP"),
            std::string::npos);
  PngKind kind;
  EXPECT_NE(message(WritePng(kind, TestPixels(kind.width, kind.height, 3, 1)))
                .find("RGB of 8 bits"),
            std::string::npos);
  kind.color_type = 4;
  EXPECT_NE(message(WritePng(kind, TestPixels(kind.width, kind.height, 2, 1)))
                .find("grey and alpha"),
            std::string::npos);
  kind.color_type = 0;
  kind.bit_depth = 16;
  EXPECT_NE(message(WritePng(kind, TestPixels(kind.width, kind.height, 2, 1)))
                .find("grey of 16 bits"),
            std::string::npos);
}

TEST(ImageDecoder, AColourBeyondThePaletteIsBlackAsInPillow) {
  PngKind kind;
  kind.width = 4;
  kind.height = 1;
  kind.color_type = 3;
  kind.palette = {10, 20, 30, 40, 50, 60};
  const std::vector<uint8_t> want = {10, 20, 30, 40, 50, 60, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(DecodeAll(WritePng(kind, {0, 1, 2, 255}), 3).pixels, want);
}

TEST(ImageDecoder, SixteenBitSamplesKeepTheirHighByte) {
  for (int color_type : {0, 2, 4, 6}) {
    for (bool interlaced : {false, true}) {
      PngKind kind;
      kind.bit_depth = 16;
      kind.color_type = color_type;
      kind.interlaced = interlaced;
      const int samples = color_type == 0   ? 1
                          : color_type == 2 ? 3
                          : color_type == 4 ? 2
                                            : 4;
      const int kept = color_type == 0 || color_type == 4 ? 1 : 3;
      const std::vector<uint8_t> stored =
          TestPixels(kind.width * 2, kind.height, samples, 4);
      std::vector<uint8_t> want;
      for (int i = 0; i < kind.width * kind.height; ++i) {
        for (int c = 0; c < 3; ++c) {
          want.push_back(stored[(i * samples + (kept == 1 ? 0 : c)) * 2]);
        }
      }
      EXPECT_EQ(DecodeAll(WritePng(kind, stored), 3).pixels, want)
          << color_type << " " << interlaced;
    }
  }
}

TEST(ImageDecoder, ARegionOfAPngIsThatOfTheWhole) {
  for (bool interlaced : {false, true}) {
    PngKind kind;
    kind.interlaced = interlaced;
    const std::vector<uint8_t> pixels =
        TestPixels(kind.width, kind.height, 3, 4);
    const std::vector<uint8_t> png = WritePng(kind, pixels);
    ImageDecoder decoder;
    ASSERT_TRUE(decoder.Open(png, false).ok());
    auto image = decoder.Decode({1, 7, 3, 9, 11, 3});
    ASSERT_TRUE(image.ok()) << image.status();
    for (int64_t y = 0; y < 11; ++y) {
      const uint8_t* got = image->data + y * image->stride;
      EXPECT_TRUE(std::equal(got, got + 27,
                             pixels.data() + ((3 + y) * kind.width + 7) * 3));
    }
  }
}

TEST(ImageDecoder, EveryTruncationOfAPngIsDataLossOrTheSamePixels) {
  for (bool interlaced : {false, true}) {
    PngKind kind;
    kind.interlaced = interlaced;
    const std::vector<uint8_t> pixels =
        TestPixels(kind.width, kind.height, 3, 4);
    const std::vector<uint8_t> png = WritePng(kind, pixels);
    ImageDecoder decoder;
    int bad = 0;
    for (size_t size = 0; size < png.size(); ++size) {
      const std::vector<uint8_t> cut(png.begin(), png.begin() + size);
      auto header = decoder.Open(cut, true);
      absl::StatusOr<DecodedImage> image = absl::UnknownError("");
      if (header.ok()) {
        image = decoder.Decode({1, 0, 0, kind.width, kind.height, 3});
      }
      const absl::Status status =
          header.ok() ? image.status() : header.status();
      if (status.ok()) {
        EXPECT_TRUE(std::equal(pixels.begin(), pixels.end(), image->data));
      } else {
        ++bad;
        EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      }
    }
    // All but the checksums at the end are needed.
    EXPECT_GE(bad, static_cast<int>(png.size()) - 24);
  }
}

TEST(ImageDecoder, RefusesAbsurdPngs) {
  PngKind kind;
  std::vector<uint8_t> png =
      WritePng(kind, TestPixels(kind.width, kind.height, 3, 4));
  // The size lies at byte 16; the checksum of the header then differs, so
  // libpng refuses it, as it refuses sizes beyond the limit.
  png[16] = png[20] = 0x7F;
  ImageDecoder decoder;
  EXPECT_EQ(decoder.Open(png, false).status().code(),
            absl::StatusCode::kDataLoss);
  // A valid file of too many pixels: 1 bit each, 24 MB, all zero.
  kind = {.width = 65000, .height = 3000, .bit_depth = 1, .color_type = 0};
  png = WritePng(kind, std::vector<uint8_t>(65000 / 8 * 3000));
  auto header = decoder.Open(png, false);
  ASSERT_EQ(header.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(header.status().message().find("65000 x 3000"), std::string::npos)
      << header.status();
  // Valid files that libpng's own limits called "truncated or damaged".
  for (const auto& [width, height] :
       std::vector<std::pair<int, int>>{{1, 1'000'000}, {200'000, 2}}) {
    kind = {.width = width, .height = height, .bit_depth = 1, .color_type = 0};
    png =
        WritePng(kind, std::vector<uint8_t>((width + 7) / 8 * size_t(height)));
    header = decoder.Open(png, false);
    EXPECT_EQ(header.status(), absl::DataLossError(absl::StrCat(
                                   "the PNG claims ", width, " x ", height,
                                   " pixels; each side must have 1 to 65535")));
  }
}

// 16 texts of 7 MiB in a file of some 120 KB: libpng would keep them all.
TEST(ImageDecoder, TextsInAPngTakeNoMemory) {
  PngKind kind;
  kind.texts = 16;
  kind.text_bytes = 7 << 20;
  kind.exif = {'I',  'I', 42, 0, 8, 0, 0, 0,  // header
               1,    0,                       // entries
               0x12, 1,   3,  0, 1, 0, 0, 0, 6, 0, 0, 0};
  const std::vector<uint8_t> pixels = TestPixels(kind.width, kind.height, 3, 4);
  const std::vector<uint8_t> png = WritePng(kind, pixels);
  ASSERT_LT(png.size(), 1u << 20);
  const auto in_use = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const size_t before = in_use();
  ImageDecoder decoder;
  const auto header = decoder.Open(png, /*exif_transpose=*/true);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_LT(in_use(), before + (1 << 20));
  // What is behind the texts, and EXIF, is still seen.
  EXPECT_EQ(header->orientation, 6);
  EXPECT_EQ(header->width, kind.height);
  EXPECT_EQ(DecodeAll(png, 3).pixels, pixels);
}

TEST(ImageDecoder, BytesThatAreNoImageAreNamed) {
  ImageDecoder decoder;
  auto message = [&](const std::string& bytes) {
    const std::vector<uint8_t> data(bytes.begin(), bytes.end());
    auto header = decoder.Open(data, false);
    EXPECT_EQ(header.status().code(), absl::StatusCode::kDataLoss);
    return std::string(header.status().message());
  };
  EXPECT_NE(message("").find("empty"), std::string::npos);
  EXPECT_NE(message("hello world").find("68656c6c6f20776f"), std::string::npos);
  EXPECT_NE(message("GIF89a....").find("GIF"), std::string::npos);
  EXPECT_NE(message("RIFF....WEBPVP8 ").find("the WebP is"), std::string::npos);
  EXPECT_NE(message(std::string("\0\0\0\x0CjP  ....", 12)).find("JPEG 2000"),
            std::string::npos);
  EXPECT_NE(message(std::string("\xFF\xD8\xFF\xD9", 4)).find("JPEG"),
            std::string::npos);
}

// Claims of all formats, and regions on both sides of the limit: a number that
// only estimates the decoders' own is another one for some of them.
TEST(ImageDecoder, BytesForAreThoseThatDecodeComparesWithTheLimit) {
  const auto pixels = TestPixels(64, 48, 3, 1);
  JpegKind progressive;
  progressive.progressive = true;
  PngKind png = {.width = 64, .height = 48};
  PngKind interlaced = png;
  interlaced.interlaced = true;
  const WebpKind lossy = {.width = 64, .height = 48};
  const WebpKind lossless = {.width = 64, .height = 48, .lossless = true};
  const struct {
    const char* name;
    std::vector<uint8_t> bytes;
  } images[] = {
      {"JPEG", JpegClaiming(WriteJpeg({}, 1), 12000, 10000)},
      {"progressive JPEG", JpegClaiming(WriteJpeg(progressive, 1), 9000, 8000)},
      {"PNG", PngClaiming(WritePng(png, pixels), 12000, 10000)},
      {"interlaced PNG", PngClaiming(WritePng(interlaced, pixels), 9000, 8000)},
      {"lossy WebP", WebpClaiming(WriteWebp(lossy, pixels), 12000, 10000)},
      {"lossless WebP", WebpClaiming(WriteWebp(lossless, pixels), 8000, 7000)},
  };
  for (const auto& image : images) {
    SCOPED_TRACE(image.name);
    ImageDecoder decoder;
    int refused = 0;
    for (const int channels : {3, 1}) {
      const auto header = decoder.Open(image.bytes, false);
      ASSERT_TRUE(header.ok()) << header.status();
      DecodeRegion region = {1, 100, 1, header->width - 100, 1, channels};
      // The tallest region that is within the limit, and one row more.
      while (region.height + 1 < header->height &&
             decoder.BytesFor(region) <= kMaxDecodedBytes) {
        ++region.height;
      }
      for (const int more : {-1, 0}) {
        ASSERT_TRUE(decoder.Open(image.bytes, false).ok());
        DecodeRegion one = region;
        one.height += more;
        const int64_t bytes = decoder.BytesFor(one);
        const absl::Status status = decoder.Decode(one).status();
        // There are few pixels: it fails in any case.
        EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
        EXPECT_EQ(absl::StrContains(
                      status.message(),
                      absl::StrCat(" needs ", FormatExactByteSize(bytes),
                                   "; the maximum is 256 MiB ")),
                  bytes > kMaxDecodedBytes)
            << bytes << ": " << status;
        refused += bytes > kMaxDecodedBytes;
      }
    }
    EXPECT_GT(refused, 0);
  }
}

}  // namespace
}  // namespace millrace::decode
