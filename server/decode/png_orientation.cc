#include "server/decode/png_orientation.h"

#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "server/decode/exif.h"

namespace millrace::decode {
namespace {

constexpr size_t kSignature = 8;
constexpr size_t kHeader = 8;  // length and type
constexpr size_t kChecksum = 4;

// The keyword of an XMP text, followed by the flag for no compression.
constexpr absl::string_view kXmp("XML:com.adobe.xmp\0\0\0", 20);

}  // namespace

int PngOrientation(absl::Span<const uint8_t> png) {
  absl::Span<const uint8_t> exif;
  absl::Span<const uint8_t> xmp;
  size_t at = kSignature;
  while (at + kHeader <= png.size()) {
    const size_t length = static_cast<size_t>(png[at]) << 24 |
                          png[at + 1] << 16 | png[at + 2] << 8 | png[at + 3];
    const absl::string_view type(reinterpret_cast<const char*>(&png[at + 4]),
                                 4);
    at += kHeader;
    if (length > png.size() - at) break;
    const absl::Span<const uint8_t> data = png.subspan(at, length);
    if (type == "eXIf" && exif.empty()) {
      exif = data;
    } else if (type == "iTXt" && xmp.empty() &&
               absl::StartsWith(
                   absl::string_view(reinterpret_cast<const char*>(data.data()),
                                     data.size()),
                   kXmp)) {
      xmp = data;
    } else if (type == "IEND") {
      break;
    }
    at += length + kChecksum;
  }
  return ImageOrientation(exif, xmp);
}

}  // namespace millrace::decode
