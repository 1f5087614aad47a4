#include "server/data_tool/alpha_channel.h"

#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace millrace::data_tool {
namespace {

constexpr absl::string_view kPng = "\x89PNG\r\n\x1a\n";
constexpr size_t kPngColorType = 25;

// Chunks: u32 length (big-endian), four letters, the data, u32 checksum.
bool PngHasAlpha(absl::string_view png) {
  if (png.size() <= kPngColorType) return false;
  if (const char type = png[kPngColorType]; type == 4 || type == 6) return true;
  size_t at = kPng.size();
  while (at + 8 <= png.size()) {
    uint64_t length = 0;
    for (size_t i = 0; i < 4; ++i) {
      length = length << 8 | static_cast<uint8_t>(png[at + i]);
    }
    const absl::string_view name = png.substr(at + 4, 4);
    if (name == "tRNS") return true;
    if (name == "IDAT" || length > png.size()) return false;
    at += 12 + length;
  }
  return false;
}

// RIFF, u32 size, WEBP, then a chunk: VP8X with flags, VP8L with the alpha bit
// behind two sides of 14 bits, or VP8 without alpha.
bool WebpHasAlpha(absl::string_view webp) {
  if (webp.size() < 25) return false;
  const absl::string_view chunk = webp.substr(12, 4);
  if (chunk == "VP8X") return (webp[20] & 0x10) != 0;
  return chunk == "VP8L" && (webp[24] & 0x10) != 0;
}

}  // namespace

bool HasAlpha(absl::Span<const uint8_t> image) {
  const absl::string_view bytes(reinterpret_cast<const char*>(image.data()),
                                image.size());
  if (absl::StartsWith(bytes, kPng)) return PngHasAlpha(bytes);
  return absl::StartsWith(bytes, "RIFF") && bytes.size() >= 12 &&
         bytes.substr(8, 4) == "WEBP" && WebpHasAlpha(bytes);
}

}  // namespace millrace::data_tool
