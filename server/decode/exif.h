// Reads the orientation out of an EXIF block, as cameras write it, or out of an
// XMP packet, where some editors write it alone.
//
// Pure functions over foreign bytes: never read outside them.

#ifndef MILLRACE_SERVER_DECODE_EXIF_H_
#define MILLRACE_SERVER_DECODE_EXIF_H_

#include <cstdint>

#include "absl/types/span.h"

namespace millrace::decode {

// What Pillow's ImageOps.exif_transpose() goes by: the orientation of `exif`
// (which may begin with "Exif\0\0"), or, when it has none at all, the first
// tiff:Orientation in the text of `xmp`. Either may be empty. 1 .. 8.
int ImageOrientation(absl::Span<const uint8_t> exif,
                     absl::Span<const uint8_t> xmp);

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_EXIF_H_
