// SeekableJpeg rewrites JPEGs so that they are cheaper to decode, without
// changing a pixel: the DCT coefficients stay as they are, only their coding
// changes. The result is one sequential scan (a progressive one is decoded
// several times more slowly) with Huffman tables made for the image, a restart
// marker behind every row of MCUs and a seek index (seek_index.h). Every JPEG
// reader reads it.
//
// What is kept beside the picture is what changes how it looks: its colour
// space (JFIF, Adobe), its ICC profile, its orientation (as EXIF, wherever it
// was). Thumbnails, camera data, comments, and what follows the picture are
// dropped.
//
// Not for speed: every result is decoded beside the original, by libjpeg-turbo
// and by the server's decoder, and compared. Not thread-safe: one per thread.
// Foreign bytes.
//
//   SeekableJpeg rewriter;
//   std::string out;
//   if (rewriter.Rewrite(bytes, &out) == SeekableJpeg::Outcome::kRewritten) ...

#ifndef MILLRACE_SERVER_DECODE_SEEKABLE_JPEG_H_
#define MILLRACE_SERVER_DECODE_SEEKABLE_JPEG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/decode/jpeg_decoder.h"
#include "server/decode/jpeg_entropy_check.h"

namespace millrace::decode {

class SeekableJpeg {
 public:
  // What became of an image. All but the first: it stays as it is.
  enum class Outcome {
    kRewritten,
    kNotJpeg,
    kCmyk,        // four components
    kArithmetic,  // arithmetic-coded
    kUnusual,    // 12 bits, two components, MCUs that one scan cannot hold, ...
    kTooLarge,   // more pixels or coefficients than limits.h gives an image
    kDamaged,    // a decoder warns or fails: a reader must see that, too
    kDifferent,  // the pixels would have changed, as libjpeg smooths those of
                 // a progressive image that lacks its last scans
  };
  static constexpr int kOutcomes = 8;

  // Why it stays, as "2 images stay as they are: CMYK".
  static absl::string_view Reason(Outcome outcome);

  SeekableJpeg();
  ~SeekableJpeg();
  SeekableJpeg(const SeekableJpeg&) = delete;
  SeekableJpeg& operator=(const SeekableJpeg&) = delete;

  // Replaces *out by the rewritten image; leaves it unspecified unless the
  // outcome is kRewritten.
  Outcome Rewrite(absl::Span<const uint8_t> jpeg, std::string* out);

  // A decoder's words for the last outcome kUnusual or kDamaged.
  absl::string_view message() const;

 private:
  bool ServerReadsTheSame(absl::Span<const uint8_t> jpeg,
                          absl::Span<const uint8_t> rewritten);

  struct State;
  std::unique_ptr<State> state_;
  JpegDecoder readers_[2] = {JpegDecoder(CheckedJpegEntropy()),
                             JpegDecoder(CheckedJpegEntropy())};
  std::string message_;
};

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_SEEKABLE_JPEG_H_
