// Pixels -> JPEG, for images that a tool stores in a smaller size.
//
// Pure function, safe from any thread. The same pixels give the same bytes on
// every CPU.
//
//   MR_RETURN_IF_ERROR(EncodeJpeg(pixels, {.width = 500, .height = 375},
//                                 &jpeg));

#ifndef MILLRACE_SERVER_DECODE_JPEG_ENCODER_H_
#define MILLRACE_SERVER_DECODE_JPEG_ENCODER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace millrace::decode {

struct JpegEncoding {
  int64_t width = 0;  // 1 .. 65500, as libjpeg allows
  int64_t height = 0;
  int channels = 3;     // 1: grey, 3: RGB
  int quality = 90;     // 1 .. 100, libjpeg's
  int orientation = 1;  // above 1: written as EXIF orientation
};

// `pixels` is uint8 [height, width, channels]. Replaces `jpeg` by a sequential
// JFIF file with chroma of half the width and height (4:2:0) and Huffman tables
// made for the image. InvalidArgument: a side that JPEG cannot have.
// ResourceExhausted: no memory.
absl::Status EncodeJpeg(absl::Span<const uint8_t> pixels,
                        const JpegEncoding& encoding, std::string* jpeg);

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_JPEG_ENCODER_H_
