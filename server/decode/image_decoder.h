// ImageDecoder decodes a region of an image of any supported format: it looks
// at the first bytes and asks the right decoder. With exif_transpose the image
// is turned upright first: sizes and regions are those of the upright image.
//
// Not thread-safe: one per thread. Owns the memory of the pixels that it
// returns. DataLoss: not an image, damaged, of an unsupported kind, too large.
//
//   ImageDecoder decoder;
//   MR_ASSIGN_OR_RETURN(ImageHeader header, decoder.Open(bytes, false));
//   MR_ASSIGN_OR_RETURN(DecodedImage image, decoder.Decode(region));

#ifndef MILLRACE_SERVER_DECODE_IMAGE_DECODER_H_
#define MILLRACE_SERVER_DECODE_IMAGE_DECODER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/aligned_buffer.h"
#include "server/decode/decoded_image.h"
#include "server/decode/image_format.h"
#include "server/decode/jpeg_decoder.h"
#include "server/decode/jpeg_entropy_check.h"
#include "server/decode/operator_decoder.h"
#include "server/decode/png_decoder.h"
#include "server/decode/webp_decoder.h"
#include "server/operators/operators.h"

namespace millrace::decode {

class ImageDecoder {
 public:
  // Reads the header. `bytes` must stay until Decode() returns. Decoders of the
  // operators are asked first, in their order; they must outlive this one.
  absl::StatusOr<ImageHeader> Open(
      absl::Span<const uint8_t> bytes, bool exif_transpose,
      absl::Span<const operators::Operators::Decoder* const> operators = {});

  // Bytes that Decode(region) compares with kMaxDecodedBytes: the pixels that
  // it decodes for the region, and what the format needs beside them. Above
  // that, Decode() returns DataLoss before it allocates. After a successful
  // Open().
  int64_t BytesFor(const DecodeRegion& region) const;

  // Once after each successful Open(). region.divisor is at most the header's
  // max_divisor.
  absl::StatusOr<DecodedImage> Decode(const DecodeRegion& region);

  // Frees buffers larger than `bytes`; what Decode() returned is invalid then.
  void ReleaseAbove(size_t bytes);
  // Bytes that its buffers keep for the next image.
  size_t kept_bytes() const;

 private:
  absl::StatusOr<ImageHeader> OpenStored(
      absl::Span<const uint8_t> bytes, bool exif_transpose,
      absl::Span<const operators::Operators::Decoder* const> operators);
  // The region in the stored image.
  DecodeRegion StoredRegion(const DecodeRegion& region) const;
  absl::StatusOr<DecodedImage> DecodeStored(const DecodeRegion& region);
  OperatorDecoder& Of(const operators::Operators::Decoder& decoder);

  JpegDecoder jpeg_{CheckedJpegEntropy()};
  PngDecoder png_;
  WebpDecoder webp_;
  std::vector<std::unique_ptr<OperatorDecoder>> operators_;  // those met
  OperatorDecoder* operator_ = nullptr;  // its decoder; null: see format_
  ImageFormat format_ = ImageFormat::kUnknown;
  ImageHeader header_;     // of the upright image
  AlignedBuffer upright_;  // pixels that had to be turned
};

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_IMAGE_DECODER_H_
