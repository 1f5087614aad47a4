// OperatorDecoder decodes with a decoder of the server's --operators libraries
// (server/operators/millrace_operator.h). It checks the decoder's description
// of an image against the limits before it allocates pixels, and converts
// between grey and colour as for the built-in formats.
//
// Not thread-safe: one per thread. Owns the decoder's state of this thread and
// the memory of the pixels that it returns. `decoder` must outlive it.
//
//   OperatorDecoder decoder(*operators.FindDecoder("ppm"));
//   if (decoder.Sniff(bytes)) {
//     MR_ASSIGN_OR_RETURN(ImageHeader header, decoder.Open(bytes, false));
//     MR_ASSIGN_OR_RETURN(DecodedImage image, decoder.Decode(region));
//   }

#ifndef MILLRACE_SERVER_DECODE_OPERATOR_DECODER_H_
#define MILLRACE_SERVER_DECODE_OPERATOR_DECODER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/aligned_buffer.h"
#include "server/decode/decoded_image.h"
#include "server/operators/operators.h"

namespace millrace::decode {

class OperatorDecoder {
 public:
  explicit OperatorDecoder(const operators::Operators::Decoder& decoder);
  ~OperatorDecoder();
  OperatorDecoder(const OperatorDecoder&) = delete;
  OperatorDecoder& operator=(const OperatorDecoder&) = delete;

  const operators::Operators::Decoder& decoder() const { return decoder_; }

  bool Sniff(absl::Span<const uint8_t> bytes) const;

  // `bytes` must stay until Decode() returns. DataLoss: damaged, or beyond the
  // limits.
  absl::StatusOr<ImageHeader> Open(absl::Span<const uint8_t> bytes,
                                   bool read_orientation);

  // As ImageDecoder::BytesFor().
  int64_t BytesFor(const DecodeRegion& region) const;

  // Once after each successful Open(); region.divisor is 1.
  absl::StatusOr<DecodedImage> Decode(const DecodeRegion& region);

  // Frees pixels beyond `bytes`; what Decode() returned is invalid then.
  void ReleaseAbove(size_t bytes);
  // Bytes that its buffers keep for the next image.
  size_t kept_bytes() const { return stored_.capacity() + pixels_.capacity(); }

 private:
  absl::Status MakeState();
  absl::Status Refused(absl::string_view what) const;

  const operators::Operators::Decoder& decoder_;
  const std::string who_;  // "decoder ppm 1.0", for messages
  void* state_ = nullptr;
  bool has_state_ = false;
  millrace_bytes bytes_ = {};
  int64_t stored_channels_ = 0;
  int64_t memory_bytes_ = 0;
  AlignedBuffer stored_;  // when the channels differ
  AlignedBuffer pixels_;
};

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_OPERATOR_DECODER_H_
