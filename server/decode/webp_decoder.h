// WebpDecoder decodes a region of a WebP with libwebp: lossy and lossless. Of
// an animated file it is the first frame, on a black canvas; alpha is dropped
// undecoded, as Pillow's convert("RGB") drops it. The pixels of a region are
// those of a full decode. It cannot decode at a fraction of the size.
//
// Not thread-safe: one per thread. Owns the memory of the pixels that it
// returns. Foreign bytes: what libwebp refuses becomes DataLoss. A WebP has no
// checksums: changed bytes may decode to other pixels unnoticed.
//
//   WebpDecoder decoder;
//   MR_ASSIGN_OR_RETURN(ImageHeader header, decoder.Open(bytes, false));
//   MR_ASSIGN_OR_RETURN(DecodedImage image, decoder.Decode(region));

#ifndef MILLRACE_SERVER_DECODE_WEBP_DECODER_H_
#define MILLRACE_SERVER_DECODE_WEBP_DECODER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/aligned_buffer.h"
#include "server/decode/decoded_image.h"
#include "server/decode/webp_container.h"

namespace millrace::decode {

class WebpDecoder {
 public:
  // Reads the headers. `bytes` must stay until Decode() returns.
  absl::StatusOr<ImageHeader> Open(absl::Span<const uint8_t> bytes,
                                   bool read_orientation);

  // As ImageDecoder::BytesFor().
  int64_t BytesFor(const DecodeRegion& region) const;

  // Once after each successful Open(); region.divisor is 1.
  absl::StatusOr<DecodedImage> Decode(const DecodeRegion& region);

  // Frees pixels beyond `bytes`; what Decode() returned is invalid then.
  void ReleaseAbove(size_t bytes);
  // Bytes that its buffers keep for the next image.
  size_t kept_bytes() const { return pixels_.capacity() + rgb_.capacity(); }

 private:
  struct Box {  // of the picture
    int64_t left;
    int64_t top;
    int64_t width;
    int64_t height;
  };
  // What is decoded for a region, and where.
  struct Parts {
    // The part of the picture in the region, in coordinates of the picture.
    int64_t left;
    int64_t top;
    int64_t right;
    int64_t bottom;
    bool nothing;  // the part is empty
    bool covered;  // the part is the region
    Box box;       // what libwebp decodes, as RGB
    int64_t box_bytes;
    bool direct;           // the box is the result
    int64_t region_bytes;  // of the result, unless it is the box
  };
  Parts PartsOf(const DecodeRegion& region) const;
  // RGB of `box` to `to`, `stride` apart. libwebp may take `memory` bytes.
  absl::Status DecodeBox(const Box& box, int64_t memory, uint8_t* to,
                         int64_t stride) const;

  WebpContainer file_;
  int64_t picture_width_ = 0;
  int64_t picture_height_ = 0;
  int64_t whole_bytes_ = 0;    // that libwebp needs
  int64_t working_bytes_ = 0;  // that it may need besides
  AlignedBuffer pixels_;
  AlignedBuffer rgb_;  // before conversion, or before it gets its place
};

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_WEBP_DECODER_H_
