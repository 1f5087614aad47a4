// Fuzz target of the JPEG decoder: headers, the entropy decoder, EXIF, the seek
// index.

#include <cstdint>
#include <string>
#include <vector>

#include "common/logging.h"
#include "server/decode/seekable_jpeg.h"
#include "tests/fuzz/fuzz_decode.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/images/jpeg_writer.h"

namespace millrace {
namespace {

bool Run(const uint8_t* data, size_t size) {
  return FuzzDecode(decode::ImageFormat::kJpeg, data, size);
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (int i = 0; i < 24; ++i) {
    JpegKind kind;
    kind.width = 20 + i * 3;
    kind.height = 50 - i;
    kind.components = i % 4 == 0 ? 1 : i % 7 == 0 ? 4 : 3;
    kind.progressive = i % 3 == 1;
    kind.separate_scans = i % 6 == 2;
    kind.restart_rows = i % 5 == 0;
    kind.h_sampling = 1 + i % 2;
    kind.v_sampling = 1 + (i / 2) % 2;
    kind.quality = 30 + i * 3;
    kind.optimized = i % 5 == 3;
    if (i % 8 == 5) {
      kind.exif = {'I',  'I', 42, 0, 8, 0, 0, 0,  // header
                   1,    0,                       // entries
                   0x12, 1,   3,  0, 1, 0, 0, 0, 6, 0, 0, 0};
    }
    if (i % 8 == 6) kind.xmp = "<x tiff:Orientation=\"5\">";
    seeds.push_back(AsSeed(WriteJpeg(kind, i)));
  }
  decode::SeekableJpeg rewriter;
  for (int i = 0; i < 8; ++i) {
    JpegKind kind;
    kind.width = 20 + i * 3;
    kind.height = 20 + i * 30;  // 2 .. 15 restart intervals
    kind.components = i % 3 == 1 ? 1 : 3;
    std::string seed;
    MR_CHECK(rewriter.Rewrite(WriteJpeg(kind, i), &seed) ==
             decode::SeekableJpeg::Outcome::kRewritten);
    seeds.push_back(seed);
  }
  JpegKind odd;
  odd.sampling = {{4, 2}, {1, 1}, {1, 1}};
  seeds.push_back(AsSeed(WriteJpeg(odd, 30)));
  odd.sampling = {{1, 2}, {2, 1}, {2, 2}};
  seeds.push_back(AsSeed(WriteJpeg(odd, 31)));
  return seeds;
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {.run = Run, .seeds = Seeds};
  return target;
}

}  // namespace millrace
