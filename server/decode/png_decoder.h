// PngDecoder decodes a region of a PNG with libpng: grey, colour and palette of
// 1 to 16 bits, interlaced or not. 16-bit samples keep their high byte; alpha
// and transparency are dropped, as Pillow's convert("RGB") does. Palette
// indices and grey values can be had as they are stored. It cannot decode at a
// fraction of the size.
//
// Not thread-safe: one per thread. Owns the memory of the pixels that it
// returns. Foreign bytes: every damage becomes DataLoss with libpng's reason.
//
//   PngDecoder decoder;
//   MR_ASSIGN_OR_RETURN(ImageHeader header, decoder.Open(bytes, false));
//   MR_ASSIGN_OR_RETURN(DecodedImage image, decoder.Decode(region));

#ifndef MILLRACE_SERVER_DECODE_PNG_DECODER_H_
#define MILLRACE_SERVER_DECODE_PNG_DECODER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/aligned_buffer.h"
#include "server/decode/decoded_image.h"

namespace millrace::decode {

class PngDecoder {
 public:
  PngDecoder();
  ~PngDecoder();
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  // Reads the chunks before the pixels. `bytes` must stay until Decode()
  // returns.
  absl::StatusOr<ImageHeader> Open(absl::Span<const uint8_t> bytes,
                                   bool read_orientation);

  // As ImageDecoder::BytesFor().
  int64_t BytesFor(const DecodeRegion& region) const;

  // Once after each successful Open(); region.divisor is 1.
  absl::StatusOr<DecodedImage> Decode(const DecodeRegion& region);

  // Frees pixels beyond `bytes`; what Decode() returned is invalid then.
  void ReleaseAbove(size_t bytes);
  // Bytes that its buffers keep for the next image.
  size_t kept_bytes() const { return pixels_.capacity() + whole_.capacity(); }

 private:
  struct State;
  std::unique_ptr<State> state_;
  AlignedBuffer pixels_;
  AlignedBuffer whole_;  // a row, or all rows of an interlaced image
};

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_PNG_DECODER_H_
