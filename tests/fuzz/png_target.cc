// Fuzz target of the PNG decoder. Its chunks carry checksums, without which no
// change would get further than them: they are made right again.

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_decode.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/images/png_writer.h"

namespace millrace {
namespace {

bool Run(const uint8_t* data, size_t size) {
  return FuzzDecode(decode::ImageFormat::kPng, data, size);
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (bool interlaced : {false, true}) {
    for (int color_type : {0, 2, 3, 4, 6}) {
      for (int depth : {1, 4, 8, 16}) {
        const bool small = depth < 8;
        if (small && color_type != 0 && color_type != 3) continue;
        if (depth == 16 && color_type == 3) continue;
        PngKind kind;
        kind.bit_depth = depth;
        kind.color_type = color_type;
        kind.interlaced = interlaced;
        if (color_type == 3) kind.palette = {1, 2, 3, 40, 50, 60};
        if (color_type == 2) {
          kind.exif = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12,
                       0,   3,   0, 0,  0, 1, 0, 8, 0, 0, 0, 0};
          kind.texts = 1;
          kind.text_bytes = 40;
        }
        constexpr int kSamples[] = {1, 0, 3, 1, 2, 0, 4};
        const int row_bits = kind.width * kSamples[color_type] * depth;
        seeds.push_back(AsSeed(
            WritePng(kind, TestPixels((row_bits + 7) / 8, kind.height, 1, 5))));
      }
    }
  }
  return seeds;
}

// The checksum of every chunk that is there as a whole.
void Repair(std::string& png) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(png[i]); };
  size_t at = 8;
  while (at + 12 <= png.size()) {
    const size_t length = static_cast<size_t>(byte(at)) << 24 |
                          byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
    if (length > png.size() - at - 12) return;
    const uint32_t sum = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(&png[at + 4]),
              static_cast<uInt>(length + 4)));
    at += 8 + length;
    for (int i = 0; i < 4; ++i) png[at + i] = sum >> (24 - 8 * i) & 255;
    at += 4;
  }
}

std::vector<std::string> Words() {
  return {"IHDR", "PLTE", "IDAT", "IEND", "tRNS", "eXIf",
          "iTXt", "zTXt", "iCCP", "sPLT", "pCAL", "sCAL",
          "cHRM", "acTL", "gAMA", "sBIT", "hIST", "XML:com.adobe.xmp"};
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {
      .run = Run, .seeds = Seeds, .repair = Repair, .words = Words};
  return target;
}

}  // namespace millrace
