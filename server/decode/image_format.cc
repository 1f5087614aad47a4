#include "server/decode/image_format.h"

#include <algorithm>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace::decode {
namespace {

absl::string_view AsText(absl::Span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The name of a common format that this version does not decode, or null.
const char* UnsupportedFormat(absl::string_view text) {
  if (absl::StartsWith(text, "GIF8")) return "a GIF";
  if (absl::StartsWith(text, "BM")) return "a BMP";
  if (absl::StartsWith(text, absl::string_view("II*\0", 4)) ||
      absl::StartsWith(text, absl::string_view("MM\0*", 4))) {
    return "a TIFF";
  }
  if (text.size() >= 12 && text.substr(4, 4) == "ftyp") {
    return "an AVIF, HEIF or MP4";
  }
  if (absl::StartsWith(text, absl::string_view("\0\0\0\x0CjP  ", 8)) ||
      absl::StartsWith(text, "\xFF\x4F\xFF\x51")) {
    return "a JPEG 2000";
  }
  if (absl::StartsWith(text, absl::string_view("\0\0\0\x0CJXL ", 8)) ||
      absl::StartsWith(text, "\xFF\x0A")) {
    return "a JPEG XL";
  }
  return nullptr;
}

}  // namespace

ImageFormat DetectImageFormat(absl::Span<const uint8_t> bytes) {
  const absl::string_view text = AsText(bytes);
  if (absl::StartsWith(text, "\xFF\xD8\xFF")) return ImageFormat::kJpeg;
  if (absl::StartsWith(text, "\x89PNG\r\n\x1A\n")) return ImageFormat::kPng;
  if (absl::StartsWith(text, "RIFF") && text.size() >= 12 &&
      text.substr(8, 4) == "WEBP") {
    return ImageFormat::kWebp;
  }
  return ImageFormat::kUnknown;
}

absl::Status UnknownImageError(absl::Span<const uint8_t> bytes) {
  if (bytes.empty()) return absl::DataLossError("the image is empty (0 bytes)");
  const absl::string_view text = AsText(bytes);
  const char* name = UnsupportedFormat(text);
  const std::string kind =
      name == nullptr ? std::string("not an image of a known format")
                      : absl::StrCat(name, " image, which is not supported");
  return absl::DataLossError(absl::StrCat(
      "the ", bytes.size(), " bytes are ", kind, "; they begin with ",
      absl::BytesToHexString(text.substr(0, std::min<size_t>(8, text.size()))),
      " (hexadecimal); supported formats are JPEG, PNG and WebP"));
}

}  // namespace millrace::decode
