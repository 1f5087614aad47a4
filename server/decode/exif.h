// Reads the orientation out of an EXIF block, as cameras write it.
//
// Pure function over foreign bytes: never reads outside them.

#ifndef MILLRACE_SERVER_DECODE_EXIF_H_
#define MILLRACE_SERVER_DECODE_EXIF_H_

#include <cstdint>

#include "absl/types/span.h"

namespace millrace {

// `tiff` begins at the TIFF header ("II*\0" or "MM\0*"). Returns 1 .. 8; 1
// (upright) also when there is no orientation or the block makes no sense.
int ExifOrientation(absl::Span<const uint8_t> tiff);

}  // namespace millrace

#endif  // MILLRACE_SERVER_DECODE_EXIF_H_
