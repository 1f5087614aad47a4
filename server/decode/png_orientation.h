// Reads the orientation of a PNG file from its EXIF or XMP block, which may be
// before or after the pixels. It scans only chunk headers, without libpng,
// which would keep and inflate texts.
//
// Pure function over foreign bytes: never reads outside them. Checksums are not
// checked. Texts that are compressed ("Raw profile type exif", which some
// programs write) are not read.

#ifndef MILLRACE_SERVER_DECODE_PNG_ORIENTATION_H_
#define MILLRACE_SERVER_DECODE_PNG_ORIENTATION_H_

#include <cstdint>

#include "absl/types/span.h"

namespace millrace::decode {

// `png`: a whole file, its signature checked. 1 .. 8; 1 also when there is none
// or the file is damaged.
int PngOrientation(absl::Span<const uint8_t> png);

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_PNG_ORIENTATION_H_
