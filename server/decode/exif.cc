#include "server/decode/exif.h"

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace millrace {
namespace {

constexpr int kUpright = 1;

int Sane(uint32_t value) {
  return value >= 1 && value <= 8 ? static_cast<int>(value) : kUpright;
}

// 0: the block has no orientation.
int FindInTiff(absl::Span<const uint8_t> tiff) {
  constexpr uint32_t kOrientationTag = 0x0112;
  constexpr uint32_t kByte = 1;
  constexpr uint32_t kShort = 3;
  constexpr uint32_t kLong = 4;
  if (tiff.size() < 8) return 0;
  const bool little = tiff[0] == 'I' && tiff[1] == 'I';
  if (!little && !(tiff[0] == 'M' && tiff[1] == 'M')) return 0;
  auto read16 = [&](uint64_t at) -> uint32_t {
    const uint32_t a = tiff[at], b = tiff[at + 1];
    return little ? a | b << 8 : a << 8 | b;
  };
  auto read32 = [&](uint64_t at) -> uint32_t {
    const uint32_t a = read16(at), b = read16(at + 2);
    return little ? a | b << 16 : a << 16 | b;
  };
  if (read16(2) != 42) return 0;
  const uint64_t directory = read32(4);
  if (directory + 2 > tiff.size()) return 0;
  const uint32_t entries = read16(directory);
  for (uint32_t i = 0; i < entries; ++i) {
    const uint64_t entry = directory + 2 + uint64_t{12} * i;
    if (entry + 12 > tiff.size()) return 0;
    if (read16(entry) != kOrientationTag) continue;
    if (read32(entry + 4) != 1) return kUpright;
    // The value lies at the start of its four bytes, in the type's size.
    switch (read16(entry + 2)) {
      case kByte:
        return Sane(tiff[entry + 8]);
      case kShort:
        return Sane(read16(entry + 8));
      case kLong:
        return Sane(read32(entry + 8));
      default:
        return kUpright;
    }
  }
  return 0;
}

}  // namespace

int ExifOrientation(absl::Span<const uint8_t> tiff) {
  const int found = FindInTiff(tiff);
  return found == 0 ? kUpright : found;
}

int ImageOrientation(absl::Span<const uint8_t> exif,
                     absl::Span<const uint8_t> xmp) {
  constexpr absl::string_view kPrefix("Exif\0\0", 6);
  constexpr absl::string_view kProperty = "tiff:Orientation";
  absl::string_view block(reinterpret_cast<const char*>(exif.data()),
                          exif.size());
  while (absl::StartsWith(block, kPrefix)) {
    block.remove_prefix(kPrefix.size());
    exif.remove_prefix(kPrefix.size());
  }
  const int found = FindInTiff(exif);
  if (found != 0) return found;
  // An attribute (tiff:Orientation="6") or an element (<tiff:Orientation>6<).
  absl::string_view text(reinterpret_cast<const char*>(xmp.data()), xmp.size());
  for (size_t at = text.find(kProperty); at != absl::string_view::npos;
       at = text.find(kProperty)) {
    text.remove_prefix(at + kProperty.size());
    absl::string_view value = text;
    if (absl::StartsWith(value, "=\"")) {
      value.remove_prefix(2);
    } else if (absl::StartsWith(value, ">")) {
      value.remove_prefix(1);
    } else {
      continue;
    }
    if (!value.empty() && value[0] >= '0' && value[0] <= '9') {
      return Sane(static_cast<uint32_t>(value[0] - '0'));
    }
  }
  return kUpright;
}

}  // namespace millrace
