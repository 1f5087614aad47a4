// Hostile images: a few bytes that claim much. What the decoders allocate for
// them follows from their bytes and from the size of the picture, never from a
// length that is claimed.
//
// A PNG of 45 bytes made the server allocate a gigabyte: libpng reserved what
// its pCAL chunk said it would hold.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "server/decode/image_decoder.h"
#include "server/decode/limits.h"
#include "server/decode/seekable_jpeg.h"
#include "tests/testing/allocation_meter.h"
#include "tests/testing/images/claimed_size.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/images/png_writer.h"
#include "tests/testing/images/webp_writer.h"
#include "zlib.h"

namespace millrace::decode {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr int64_t kMiB = 1 << 20;
// Decoding a tiny image, with a decoder that has to make its buffers.
constexpr int64_t kTiny = kMiB / 2;

void Append(Bytes& to, const std::string& text) {
  to.insert(to.end(), text.begin(), text.end());
}

void Append32(Bytes& to, uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    to.push_back(static_cast<uint8_t>(number >> shift));
  }
}

// A chunk that claims `length` bytes and has those of `data`.
Bytes Chunk(const std::string& type, const Bytes& data, int64_t length = -1) {
  Bytes chunk;
  Append32(chunk, static_cast<uint32_t>(length < 0 ? data.size() : length));
  Append(chunk, type);
  chunk.insert(chunk.end(), data.begin(), data.end());
  Append32(chunk,
           static_cast<uint32_t>(
               crc32(0, chunk.data() + 4, static_cast<uInt>(data.size() + 4))));
  return chunk;
}

Bytes PngHeader(uint32_t width, uint32_t height, int depth, int color,
                bool interlaced) {
  Bytes data;
  Append32(data, width);
  Append32(data, height);
  for (int value : {depth, color, 0, 0, interlaced ? 1 : 0}) {
    data.push_back(static_cast<uint8_t>(value));
  }
  Bytes png;
  Append(png, "\x89PNG\r\n\x1A\n");
  const Bytes chunk = Chunk("IHDR", data);
  png.insert(png.end(), chunk.begin(), chunk.end());
  return png;
}

Bytes Join(Bytes first, const Bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Bytes Deflated(const Bytes& data) {
  uLongf size = compressBound(data.size());
  Bytes packed(size);
  EXPECT_EQ(compress2(packed.data(), &size, data.data(), data.size(), 9), Z_OK);
  packed.resize(size);
  return packed;
}

// A whole 20 x 14 PNG with `chunks` before its pixels.
Bytes PngWith(const Bytes& chunks) {
  const PngKind kind;
  Bytes png = WritePng(kind, TestPixels(kind.width, kind.height, 3, 1));
  constexpr size_t kBehindHeader = 8 + 25;
  png.insert(png.begin() + kBehindHeader, chunks.begin(), chunks.end());
  return png;
}

Bytes JpegSegment(int marker, const std::string& payload, int length = -1) {
  const int claimed =
      (length < 0 ? static_cast<int>(payload.size()) : length) + 2;
  Bytes segment = {0xFF, static_cast<uint8_t>(marker),
                   static_cast<uint8_t>(claimed >> 8),
                   static_cast<uint8_t>(claimed)};
  Append(segment, payload);
  return segment;
}

// Behind SOI.
Bytes JpegWith(const Bytes& segments, const JpegKind& kind = {}) {
  Bytes jpeg = WriteJpeg(kind, 1);
  jpeg.insert(jpeg.begin() + 2, segments.begin(), segments.end());
  return jpeg;
}

Bytes Repeated(const Bytes& piece, int times) {
  Bytes all;
  for (int i = 0; i < times; ++i) all = Join(std::move(all), piece);
  return all;
}

Bytes Webp(bool lossless) {
  WebpKind kind;
  kind.width = 21;
  kind.height = 15;
  kind.lossless = lossless;
  return WriteWebp(kind, TestPixels(kind.width, kind.height, 3, 4));
}

// A chunk of a RIFF file that claims `length`.
Bytes RiffChunk(const std::string& tag, const Bytes& data, uint32_t length) {
  Bytes chunk;
  Append(chunk, tag);
  for (int i = 0; i < 4; ++i) chunk.push_back(length >> (8 * i) & 255);
  return Join(chunk, data);
}

struct Hostile {
  std::string name;
  Bytes bytes;
  int64_t most;       // that may be allocated at a time
  bool good = false;  // an image all the same
};

std::vector<Hostile> Images() {
  std::vector<Hostile> images;
  const auto add = [&](const std::string& name, Bytes bytes, int64_t most,
                       bool good = false) {
    images.push_back({name, std::move(bytes), most, good});
  };
  // --- PNG: a chunk of every kind that claims a gigabyte.
  for (const char* type :
       {"pCAL", "sCAL", "PLTE", "tRNS", "bKGD", "cHRM", "eXIf",
        "gAMA", "hIST", "iCCP", "iTXt", "oFFs", "pHYs", "sBIT",
        "sPLT", "sRGB", "sTER", "tEXt", "tIME", "zTXt", "cICP",
        "mDCV", "cLLI", "acTL", "fcTL", "IDAT", "vpAg", "IEND"}) {
    const Bytes header = PngHeader(1, 1, 8, 3, false);
    // 45 bytes with the pCAL of the report.
    add(std::string("PNG, huge ") + type,
        Join(header, Chunk(type, {}, 0x3FFFFFFF)), kTiny);
  }
  // Texts, profiles and palettes that inflate.
  const Bytes bomb = Deflated(Bytes(64 * kMiB, 'a'));
  const auto packed = [&](const std::string& head) {
    Bytes data;
    Append(data, head);
    return Join(data, bomb);
  };
  add("PNG, zTXt bomb",
      PngWith(Chunk("zTXt", packed(std::string("Comment\0\0", 9)))), kTiny,
      true);
  add("PNG, iTXt bomb",
      PngWith(Chunk("iTXt", packed(std::string("Comment\0\1\0\0\0", 12)))),
      kTiny, true);
  add("PNG, iCCP bomb",
      PngWith(Chunk("iCCP", packed(std::string("icc\0\0", 5)))), kTiny, true);
  Bytes purpose;
  Append(purpose, std::string("purpose\0\0\0\0\0\0\0\1\0\377unit\0", 22));
  purpose.insert(purpose.end(), 4 * kMiB, '1');
  add("PNG, pCAL of 4 MiB", PngWith(Chunk("pCAL", purpose)), kTiny, true);
  Bytes text;
  Append(text, std::string("a\0b", 3));
  add("PNG, 20,000 texts", PngWith(Repeated(Chunk("tEXt", text), 20000)), kTiny,
      true);
  Bytes suggested;
  Append(suggested, std::string("name\0\10", 6));
  add("PNG, 5,000 palettes",
      PngWith(Repeated(Chunk("sPLT", Join(suggested, Bytes(6))), 5000)), kTiny,
      true);
  // Sizes without pixels.
  add("PNG, 65535 wide, 64 bits a pixel", PngHeader(65535, 2700, 16, 6, false),
      kTiny);
  add("PNG, beyond the side", PngHeader(0x7FFFFFFF, 1, 8, 2, false), kTiny);
  add("PNG, beyond the pixels", PngHeader(65535, 65535, 8, 2, true), kTiny);

  // --- JPEG.
  add("JPEG, APP1 that ends early",
      Join({0xFF, 0xD8}, JpegSegment(0xE1, std::string("Exif\0\0", 6), 0xFFFD)),
      kTiny);
  for (int marker : {0xE1, 0xE9, 0xE2, 0xEE, 0xE0, 0xFE}) {
    add("JPEG, 50,000 empty segments " + std::to_string(marker),
        JpegWith(Repeated(JpegSegment(marker, ""), 50000)), 3 * kTiny, true);
    add("JPEG, 50,000 small segments " + std::to_string(marker),
        JpegWith(Repeated(JpegSegment(marker, "x"), 50000)), 3 * kTiny, true);
  }
  add("JPEG, 60 large XMP blocks",
      JpegWith(Repeated(
          JpegSegment(0xE1, std::string("http://ns.adobe.com/xap/1.0/\0", 29) +
                                std::string(60000, ' ')),
          60)),
      5 * kMiB, true);
  JpegKind progressive;
  progressive.progressive = true;
  add("JPEG, beyond the pixels", JpegClaiming(WriteJpeg({}, 1), 65500, 65500),
      kTiny);
  add("JPEG, progressive, beyond the memory",
      JpegClaiming(WriteJpeg(progressive, 1), 13000, 13000), kTiny);
  // Its first pixels are there.
  add("JPEG, 65500 wide, little data", JpegClaiming(WriteJpeg({}, 1), 65500, 8),
      16 * kMiB, true);

  // --- WebP.
  add("WebP, canvas of 2^24",
      JoinWebpChunks(
          {{"VP8X", Bytes{0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}}}),
      kTiny);
  for (const char* tag : {"VP8X", "VP8 ", "VP8L", "ALPH", "ICCP", "ANIM",
                          "ANMF", "EXIF", "XMP ", "what"}) {
    Bytes file;
    Append(file, std::string("RIFF\xFF\xFF\xFF\x7FWEBP", 12));
    add(std::string("WebP, huge ") + tag,
        Join(file, RiffChunk(tag, Bytes(10), 0x7FFFFFFF)), kTiny);
  }
  add("WebP, lossy, 16383 x 10000", WebpClaiming(Webp(false), 16383, 10000),
      8 * kMiB);
  return images;
}

// The region's pixels are asked for by who decodes, not by the image.
constexpr DecodeRegion kOnePixel = {1, 0, 0, 1, 1, 3};

TEST(DecoderMemory, NoLengthInAFileIsBelieved) {
  const Bytes reported =
      Join(PngHeader(1, 1, 8, 3, false), Chunk("pCAL", {}, 0x3FFFFFFF));
  EXPECT_EQ(reported.size(), 45);
  const std::vector<Hostile> images = Images();
  // What is made once in a process.
  { ImageDecoder().Open(Webp(true), true).IgnoreError(); }
  for (const Hostile& image : images) {
    SCOPED_TRACE(image.name);
    const AllocationMeter meter;
    ImageDecoder decoder;
    absl::Status status;
    const auto header = decoder.Open(image.bytes, true);
    status = header.status();
    int64_t counted = 0;
    if (header.ok()) {
      counted = header->whole_bytes;
      status = decoder.Decode(kOnePixel).status();
    }
    EXPECT_EQ(status.ok(), image.good) << status;
    if (!status.ok()) {
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    }
    EXPECT_LE(meter.peak(), image.most);
    // What a worker is counted for, and what is kept for each decoder.
    EXPECT_LE(meter.peak(), counted + kTiny);
  }
}

// The largest of each kind that is decoded takes what its header says.
TEST(DecoderMemory, ALargeImageTakesWhatItIsCountedFor) {
  std::vector<Hostile> images;
  const auto add = [&](const std::string& name, Bytes bytes) {
    images.push_back({name, std::move(bytes), 0, true});
  };
  JpegKind kind;
  kind.width = 1000;
  kind.height = 500;
  add("JPEG", WriteJpeg(kind, 1));
  kind.progressive = true;
  add("JPEG, progressive", WriteJpeg(kind, 1));
  kind.sampling = {{2, 2}, {1, 2}, {2, 1}};
  add("JPEG, progressive, asymmetric", WriteJpeg(kind, 1));
  kind = {.width = 9000, .height = 24, .components = 4};
  kind.v_sampling = 4;
  kind.h_sampling = 1;
  add("JPEG, CMYK, wide, tall units", WriteJpeg(kind, 1));
  PngKind png;
  png.width = 1500;
  png.height = 300;
  png.color_type = 6;
  png.bit_depth = 16;
  const Bytes samples = TestPixels(png.width * 8, png.height, 1, 2);
  add("PNG, 64 bits a pixel", WritePng(png, samples));
  png.interlaced = true;
  add("PNG, interlaced", WritePng(png, samples));
  for (bool lossless : {false, true}) {
    WebpKind webp;
    webp.width = 600;
    webp.height = 400;
    webp.lossless = lossless;
    add(lossless ? "WebP, lossless" : "WebP, lossy",
        WriteWebp(webp, TestPixels(webp.width, webp.height, 3, 4)));
  }
  for (const Hostile& image : images) {
    SCOPED_TRACE(image.name);
    const AllocationMeter meter;
    ImageDecoder decoder;
    const auto header = decoder.Open(image.bytes, true);
    ASSERT_TRUE(header.ok()) << header.status();
    DecodeRegion whole = {1, 0, 0, header->width, header->height, 3};
    for (int divisor = 1; divisor <= header->max_divisor; divisor *= 2) {
      ASSERT_TRUE(decoder.Open(image.bytes, true).ok());
      whole.divisor = divisor;
      whole.width = (header->width + divisor - 1) / divisor;
      whole.height = (header->height + divisor - 1) / divisor;
      const auto decoded = decoder.Decode(whole);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
    }
    const int64_t pixels = header->width * header->height * 3;
    EXPECT_LE(meter.peak(), pixels + header->whole_bytes + kTiny);
    EXPECT_GE(meter.peak(), pixels);
  }
}

// Without its last scans libjpeg smooths over the blocks of whole rows: the
// pixels of whole rows were kept, which nobody had counted.
TEST(DecoderMemory, AColumnOfACoarseProgressiveImageTakesItsOwnPixels) {
  JpegKind kind;
  kind.width = 3000;
  kind.height = 2000;
  kind.progressive = true;
  Bytes jpeg = WriteJpeg(kind, 1);
  int scans = 0;
  for (size_t i = 2; i + 1 < jpeg.size(); ++i) {
    if (jpeg[i] != 0xFF || jpeg[i + 1] != 0xDA || ++scans < 2) continue;
    jpeg.resize(i);
  }
  ASSERT_EQ(scans, 2);
  jpeg.insert(jpeg.end(), {0xFF, 0xD9});
  const AllocationMeter meter;
  ImageDecoder decoder;
  const auto header = decoder.Open(jpeg, false);
  ASSERT_TRUE(header.ok()) << header.status();
  const DecodeRegion column = {1, 1000, 0, 64, header->height, 3};
  const auto decoded = decoder.Decode(column);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const int64_t pixels = (64 + 2 * 32) * header->height * 3;
  EXPECT_LE(meter.peak(), pixels + header->whole_bytes + kTiny);
}

// As many bytes are kept as there are, not many times as much.
TEST(DecoderMemory, RewritingAJpegTakesWhatItsSizeNeeds) {
  for (const char* payload : {"", "ICC_PROFILE"}) {
    SCOPED_TRACE(payload);
    const Bytes jpeg = JpegWith(Repeated(JpegSegment(0xE2, payload), 50000));
    std::string rewritten;
    const AllocationMeter meter;
    SeekableJpeg rewriter;
    const SeekableJpeg::Outcome outcome = rewriter.Rewrite(jpeg, &rewritten);
    EXPECT_EQ(outcome, SeekableJpeg::Outcome::kTooLarge)
        << SeekableJpeg::Reason(outcome);
    EXPECT_LE(meter.peak(), 4 * static_cast<int64_t>(jpeg.size()) + 2 * kMiB);
  }
}

}  // namespace
}  // namespace millrace::decode
