// Limits of the sizes that an image may claim, checked before memory is
// allocated.

#ifndef MILLRACE_SERVER_DECODE_LIMITS_H_
#define MILLRACE_SERVER_DECODE_LIMITS_H_

#include <cstdint>

namespace millrace::decode {

// Max memory to decode one image: the pixels of the requested region, and the
// memory of the format (coefficients of a progressive JPEG, all pixels of an
// interlaced PNG or of a lossless WebP).
inline constexpr int64_t kMaxDecodedBytes = int64_t{256} << 20;

// Pixels of a whole image; Pillow refuses the same number.
inline constexpr int64_t kMaxImagePixels = 178956970;

// Scans of a progressive JPEG. Encoders write about ten; thousands of empty
// ones would keep a thread busy for minutes.
inline constexpr int kMaxJpegScans = 100;

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_LIMITS_H_
