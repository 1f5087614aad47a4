// Decides whether this process decodes JPEGs with FastEntropy
// (fast_entropy.h), which knows a private struct of libjpeg-turbo: the library
// that is loaded may be another than the one of the headers. FastEntropy is
// used when it makes the same pixels of the built-in JPEGs as libjpeg's own
// Huffman decoder; otherwise libjpeg's is used, which is slower.
//
// Thread-safe.
//
//   JpegDecoder decoder(CheckedJpegEntropy());

#ifndef MILLRACE_SERVER_DECODE_JPEG_ENTROPY_CHECK_H_
#define MILLRACE_SERVER_DECODE_JPEG_ENTROPY_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/decode/jpeg_decoder.h"

namespace millrace::decode {

// Whether `decoder` makes the pixels of `reference` of a JPEG, whole, in part
// and at every scale. Internal: one cannot decode it, or the pixels differ;
// says which. `name` is the image's, for messages.
absl::Status SameJpegPixels(absl::string_view name,
                            absl::Span<const uint8_t> jpeg,
                            JpegDecoder& reference, JpegDecoder& decoder);

// The check of the loaded library. Internal: why FastEntropy is not used.
absl::Status CheckFastEntropy();

// The result of CheckFastEntropy(), which runs once in a process. The first
// call logs when FastEntropy is not used.
JpegDecoder::Entropy CheckedJpegEntropy();

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_JPEG_ENTROPY_CHECK_H_
