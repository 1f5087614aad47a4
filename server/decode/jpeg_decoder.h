// JpegDecoder decodes a region of a JPEG with libjpeg-turbo: only the requested
// rows and columns, at 1/1, 1/2, 1/4 or 1/8 of the size. The pixels of a region
// are those of a full decode with libjpeg's defaults at that size.
//
// Not thread-safe: one per thread. Owns the memory of the pixels that it
// returns. Foreign bytes: every damage becomes DataLoss with libjpeg's reason.
// Damage in bytes that are not read is not detected: below the region's last
// row and, in a file with a seek index, in the intervals above its first row.
//
//   JpegDecoder decoder;
//   MR_ASSIGN_OR_RETURN(ImageHeader header, decoder.Open(bytes, false));
//   MR_ASSIGN_OR_RETURN(DecodedImage image, decoder.Decode(region));

#ifndef MILLRACE_SERVER_DECODE_JPEG_DECODER_H_
#define MILLRACE_SERVER_DECODE_JPEG_DECODER_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/aligned_buffer.h"
#include "server/decode/decoded_image.h"
#include "server/decode/fast_entropy.h"

namespace millrace::decode {

class JpegDecoder {
 public:
  // What decodes the Huffman codes of images that both can.
  enum class Entropy { kLibrary, kFast };

  // Programs give CheckedJpegEntropy() of jpeg_entropy_check.h.
  explicit JpegDecoder(Entropy entropy = Entropy::kFast);
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Reads the header. `bytes` must stay until Decode() returns.
  absl::StatusOr<ImageHeader> Open(absl::Span<const uint8_t> bytes,
                                   bool read_orientation);

  // As ImageDecoder::BytesFor().
  int64_t BytesFor(const DecodeRegion& region) const;

  // Once after each successful Open().
  absl::StatusOr<DecodedImage> Decode(const DecodeRegion& region);

  // Whether FastEntropy has decoded the last image.
  bool used_fast_entropy() const { return used_fast_entropy_; }

  // Frees pixels beyond `bytes`; what Decode() returned is invalid then.
  void ReleaseAbove(size_t bytes);
  // Bytes that its buffers keep for the next image.
  size_t kept_bytes() const {
    return pixels_.capacity() + line_.capacity() + entropy_.kept_bytes();
  }

 private:
  struct State;
  // Whether FastEntropy may be used for the image whose header is read.
  bool UsesFastEntropy(const State& state) const;

  const Entropy fastest_;
  bool used_fast_entropy_ = false;
  std::unique_ptr<State> state_;
  AlignedBuffer pixels_;
  FastEntropy entropy_;
  AlignedBuffer line_;  // a row before conversion
};

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_JPEG_DECODER_H_
