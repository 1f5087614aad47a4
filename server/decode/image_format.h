// Tells by the first bytes what kind of image it is.
//
// Pure functions.

#ifndef MILLRACE_SERVER_DECODE_IMAGE_FORMAT_H_
#define MILLRACE_SERVER_DECODE_IMAGE_FORMAT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace millrace::decode {

enum class ImageFormat { kUnknown, kJpeg, kPng, kWebp };

ImageFormat DetectImageFormat(absl::Span<const uint8_t> bytes);

// DataLoss for bytes of no known format: names the first bytes, and the format
// when it is a known one that is not supported (GIF, TIFF, ...).
absl::Status UnknownImageError(absl::Span<const uint8_t> bytes);

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_IMAGE_FORMAT_H_
