// The requests to decoders and their results. Plain structs.

#ifndef MILLRACE_SERVER_DECODE_DECODED_IMAGE_H_
#define MILLRACE_SERVER_DECODE_DECODED_IMAGE_H_

#include <cstddef>
#include <cstdint>

namespace millrace::decode {

// What a header says.
struct ImageHeader {
  int64_t width = 0;
  int64_t height = 0;
  // The largest of 1, 2, 4, 8 by which decoding can divide the size.
  int max_divisor = 1;
  // EXIF orientation, 1 .. 8; 1 unless it was asked for.
  int orientation = 1;
  // Memory that decoding takes whatever the region: the coefficients of a
  // progressive JPEG, all pixels of an interlaced PNG or of a lossless WebP,
  // the library's rows, a copy of the file's bytes. The library gets little
  // more.
  int64_t whole_bytes = 0;
  // If neither 0 nor the requested number of channels: decoding first writes
  // the region's pixels with this number of channels into memory of their own.
  int decoded_channels = 0;
};

// Pixels [left, left + width) x [top, top + height) of the image at 1/divisor
// of its size, which is ceil(width / divisor) x ceil(height / divisor). Not
// empty, inside the image.
struct DecodeRegion {
  int divisor = 1;
  int64_t left = 0;
  int64_t top = 0;
  int64_t width = 0;
  int64_t height = 0;
  int channels = 3;  // 1: grey, 3: RGB
  // With one channel: the stored numbers instead of colours, for masks of
  // classes. The index of a palette PNG, the value of a grey one of up to 8
  // bits, neither scaled; of any other image it is refused.
  bool index = false;
};

// Interleaved pixels of a region, in the decoder's memory: valid until its
// next call. 256 bytes behind the last row may be read.
struct DecodedImage {
  const uint8_t* data = nullptr;
  ptrdiff_t stride = 0;
};

inline constexpr size_t kDecodedReadSlack = 256;

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_DECODED_IMAGE_H_
