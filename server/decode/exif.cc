#include "server/decode/exif.h"

namespace millrace {

int ExifOrientation(absl::Span<const uint8_t> tiff) {
  constexpr int kUpright = 1;
  constexpr uint32_t kOrientationTag = 0x0112;
  constexpr uint32_t kShort = 3;
  if (tiff.size() < 8) return kUpright;
  const bool little = tiff[0] == 'I' && tiff[1] == 'I';
  if (!little && !(tiff[0] == 'M' && tiff[1] == 'M')) return kUpright;
  auto read16 = [&](uint64_t at) -> uint32_t {
    const uint32_t a = tiff[at], b = tiff[at + 1];
    return little ? a | b << 8 : a << 8 | b;
  };
  auto read32 = [&](uint64_t at) -> uint32_t {
    const uint32_t a = read16(at), b = read16(at + 2);
    return little ? a | b << 16 : a << 16 | b;
  };
  if (read16(2) != 42) return kUpright;
  const uint64_t directory = read32(4);
  if (directory + 2 > tiff.size()) return kUpright;
  const uint32_t entries = read16(directory);
  for (uint32_t i = 0; i < entries; ++i) {
    const uint64_t entry = directory + 2 + uint64_t{12} * i;
    if (entry + 12 > tiff.size()) return kUpright;
    if (read16(entry) != kOrientationTag) continue;
    if (read16(entry + 2) != kShort || read32(entry + 4) != 1) return kUpright;
    const uint32_t value = read16(entry + 8);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : kUpright;
  }
  return kUpright;
}

}  // namespace millrace
