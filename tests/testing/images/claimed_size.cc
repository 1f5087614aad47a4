#include "tests/testing/images/claimed_size.h"

#include <cstddef>
#include <cstring>

#include "zlib.h"

namespace millrace {
namespace {

void Write32(uint8_t* to, uint32_t number) {
  for (int i = 0; i < 4; ++i) {
    to[i] = static_cast<uint8_t>(number >> (24 - 8 * i));
  }
}

}  // namespace

std::vector<uint8_t> JpegClaiming(std::vector<uint8_t> jpeg, int width,
                                  int height) {
  for (size_t at = 2; at + 9 < jpeg.size() && jpeg[at] == 0xFF;
       at += 2 + (jpeg[at + 2] << 8 | jpeg[at + 3])) {
    if (jpeg[at + 1] < 0xC0 || jpeg[at + 1] > 0xC2) continue;
    jpeg[at + 5] = static_cast<uint8_t>(height >> 8);
    jpeg[at + 6] = static_cast<uint8_t>(height);
    jpeg[at + 7] = static_cast<uint8_t>(width >> 8);
    jpeg[at + 8] = static_cast<uint8_t>(width);
    return jpeg;
  }
  return {};
}

std::vector<uint8_t> PngClaiming(std::vector<uint8_t> png, int width,
                                 int height) {
  constexpr size_t kType = 12;  // behind the signature and the chunk's length
  constexpr size_t kTypeAndData = 4 + 13;
  if (png.size() < kType + kTypeAndData + 4 ||
      std::memcmp(png.data() + kType, "IHDR", 4) != 0) {
    return {};
  }
  Write32(png.data() + kType + 4, static_cast<uint32_t>(width));
  Write32(png.data() + kType + 8, static_cast<uint32_t>(height));
  Write32(png.data() + kType + kTypeAndData,
          static_cast<uint32_t>(crc32(0, png.data() + kType, kTypeAndData)));
  return png;
}

std::vector<uint8_t> WebpClaiming(std::vector<uint8_t> webp, int width,
                                  int height) {
  constexpr size_t kPicture = 20;  // behind RIFF, WEBP and the chunk's head
  if (webp.size() < kPicture + 10) return {};
  if (std::memcmp(webp.data() + 12, "VP8L", 4) == 0) {
    const uint32_t size = static_cast<uint32_t>(width - 1) |
                          static_cast<uint32_t>(height - 1) << 14;
    for (int i = 0; i < 4; ++i) {
      webp[kPicture + 1 + i] = static_cast<uint8_t>(size >> (8 * i));
    }
    return webp;
  }
  if (std::memcmp(webp.data() + 12, "VP8 ", 4) != 0) return {};
  webp[kPicture + 6] = static_cast<uint8_t>(width);
  webp[kPicture + 7] = static_cast<uint8_t>(width >> 8);
  webp[kPicture + 8] = static_cast<uint8_t>(height);
  webp[kPicture + 9] = static_cast<uint8_t>(height >> 8);
  return webp;
}

}  // namespace millrace
