// Finds the first picture of a WebP file: the chunks of its RIFF container are
// parsed, no pixel is decoded. A still file has one picture; of an animated one
// it is the first frame, which may cover a part of the canvas.
//
// Pure function over foreign bytes: never reads outside them. The spans point
// into them. Source:
// https://developers.google.com/speed/webp/docs/riff_container
//
//   MR_ASSIGN_OR_RETURN(WebpContainer file, ReadWebpContainer(bytes));

#ifndef MILLRACE_SERVER_DECODE_WEBP_CONTAINER_H_
#define MILLRACE_SERVER_DECODE_WEBP_CONTAINER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace millrace::decode {

struct WebpContainer {
  // The payload of the picture's VP8 or VP8L chunk; alpha lies elsewhere.
  absl::Span<const uint8_t> picture;
  bool lossless = false;  // VP8L
  // Of the canvas, when the file has an extended header (VP8X); else 0: the
  // picture is the canvas.
  int64_t canvas_width = 0;
  int64_t canvas_height = 0;
  bool animated = false;
  // Where the first frame of an animated file lies, as its header says.
  int64_t frame_left = 0;
  int64_t frame_top = 0;
  int64_t frame_width = 0;
  int64_t frame_height = 0;
  // Empty when there is none.
  absl::Span<const uint8_t> exif;
  absl::Span<const uint8_t> xmp;
};

// DataLoss: truncated, or no WebP that holds a picture.
absl::StatusOr<WebpContainer> ReadWebpContainer(
    absl::Span<const uint8_t> bytes);

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_WEBP_CONTAINER_H_
