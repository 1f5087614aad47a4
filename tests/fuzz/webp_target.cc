// Fuzz target of the WebP decoder: container, lossy and lossless pictures.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_decode.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/images/jpeg_writer.h"
#include "tests/testing/images/webp_writer.h"

namespace millrace {
namespace {

bool Run(const uint8_t* data, size_t size) {
  return FuzzDecode(decode::ImageFormat::kWebp, data, size);
}

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (int i = 0; i < 16; ++i) {
    WebpKind kind;
    kind.width = 17 + i * 3;
    kind.height = 40 - 2 * i;
    kind.lossless = i % 2 == 1;
    kind.alpha = i % 4 > 1;
    kind.quality = 20 + 5 * i;
    const std::vector<uint8_t> webp = WriteWebp(
        kind, TestPixels(kind.width, kind.height, kind.alpha ? 4 : 3, i));
    seeds.push_back(AsSeed(webp));
    if (i > 2) continue;
    seeds.push_back(AsSeed(
        JoinWebpChunks({WebpCanvas(80, 60, true),
                        {"ANIM", {0, 0, 0, 0, 0, 0}},
                        WebpFrame(webp, 4, 2, kind.width, kind.height)})));
    std::vector<WebpChunk> chunks = ReadWebpChunks(webp);
    chunks.insert(chunks.begin(), WebpCanvas(kind.width, kind.height, false));
    chunks.push_back({"XMP ",
                      {'t', 'i', 'f', 'f', ':', 'O', 'r', 'i', 'e', 'n', 't',
                       'a', 't', 'i', 'o', 'n', '>', '6'}});
    seeds.push_back(AsSeed(JoinWebpChunks(chunks)));
  }
  return seeds;
}

std::vector<std::string> Words() {
  return {"VP8 ", "VP8L", "VP8X", "ALPH", "ANIM", "ANMF", "EXIF", "XMP "};
}

}  // namespace

const FuzzTarget& TheFuzzTarget() {
  static const FuzzTarget target = {.run = Run, .seeds = Seeds, .words = Words};
  return target;
}

}  // namespace millrace
