// Fuzz target of the rewriter of JPEGs: what it writes must decode, at every
// size, to the pixels of the original.

#include <cstdint>
#include <string>
#include <vector>

#include "common/logging.h"
#include "server/decode/image_decoder.h"
#include "server/decode/seekable_jpeg.h"
#include "tests/fuzz/fuzz_decode.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/images/jpeg_writer.h"

namespace millrace {
namespace {

constexpr int64_t kMaxFuzzedPixels = 1 << 20;

// Empty when it cannot be decoded.
std::vector<uint8_t> Pixels(decode::ImageDecoder& decoder,
                            absl::Span<const uint8_t> bytes, int divisor) {
  std::vector<uint8_t> pixels;
  auto header = decoder.Open(bytes, false);
  CheckDecodeStatus(header.status());
  if (!header.ok()) return pixels;
  decode::DecodeRegion all;
  all.divisor = divisor;
  all.width = (header->width + divisor - 1) / divisor;
  all.height = (header->height + divisor - 1) / divisor;
  auto image = decoder.Decode(all);
  CheckDecodeStatus(image.status());
  if (!image.ok()) return pixels;
  for (int64_t y = 0; y < all.height; ++y) {
    const uint8_t* row = image->data + y * image->stride;
    pixels.insert(pixels.end(), row, row + all.width * 3);
  }
  return pixels;
}

bool Run(const uint8_t* data, size_t size) {
  static decode::SeekableJpeg* const rewriter = new decode::SeekableJpeg;
  static decode::ImageDecoder* const decoder = new decode::ImageDecoder;
  // Its own allocation, so that a read past the end is seen.
  const std::vector<uint8_t> bytes(data, data + size);
  auto header = decoder->Open(bytes, false);
  if (header.ok() && header->width * header->height > kMaxFuzzedPixels) {
    return true;
  }
  std::string out;
  if (rewriter->Rewrite(bytes, &out) !=
      decode::SeekableJpeg::Outcome::kRewritten) {
    return false;
  }
  for (int divisor : {1, 2, 4, 8}) {
    const std::vector<uint8_t> want = Pixels(*decoder, bytes, divisor);
    MR_CHECK(!want.empty());
    MR_CHECK(Pixels(*decoder,
                    {reinterpret_cast<const uint8_t*>(out.data()), out.size()},
                    divisor) == want);
  }
  return true;
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (int i = 0; i < 20; ++i) {
    JpegKind kind;
    kind.width = 20 + i * 3;
    kind.height = 70 - i;
    kind.components = i % 4 == 0 ? 1 : 3;
    kind.progressive = i % 3 == 1;
    kind.separate_scans = i % 6 == 2;
    kind.restart_rows = i % 5 == 0;
    kind.h_sampling = 1 + i % 2;
    kind.v_sampling = 1 + (i / 2) % 2;
    kind.quality = 30 + i * 3;
    kind.optimized = i % 5 == 3;
    seeds.push_back(AsSeed(WriteJpeg(kind, i)));
  }
  return seeds;
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {.run = Run, .seeds = Seeds};
  return target;
}

}  // namespace millrace
