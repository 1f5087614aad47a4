// Reads the orientation that a PNG file says it has, in its EXIF or its XMP
// block, which may stand before or behind the pixels. Only chunk headers are
// walked over; libpng, which would keep and inflate texts, is not asked.
//
// Pure function over foreign bytes: never reads outside them. Checksums are not
// checked. Texts that are compressed ("Raw profile type exif", which some
// programs write) are not read.

#ifndef MILLRACE_SERVER_DECODE_PNG_ORIENTATION_H_
#define MILLRACE_SERVER_DECODE_PNG_ORIENTATION_H_

#include <cstdint>

#include "absl/types/span.h"

namespace millrace {

// `png`: a whole file, its signature checked. 1 .. 8; 1 also when there is none
// or the file is damaged.
int PngOrientation(absl::Span<const uint8_t> png);

}  // namespace millrace

#endif  // MILLRACE_SERVER_DECODE_PNG_ORIENTATION_H_
