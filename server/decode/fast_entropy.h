// FastEntropy replaces libjpeg's Huffman decoder of sequential JPEGs, which
// takes most of the time of a decode. It is installed in a libjpeg decompressor
// after jpeg_start_decompress(). libjpeg still computes inverse DCT, upsampling
// and colour, so the pixels are the same by construction.
//
// It is fast for these reasons. Stuffed zero bytes are removed beforehand, so
// that 8 bytes are loaded at once. A table gives run, value and length of a
// coefficient in one look-up. Outside the wanted columns and rows, one look-up
// skips several coefficients and nothing is stored. If the scan has restart
// markers, whole intervals are skipped unread, with a seek index (seek_index.h)
// by one jump. Data after the last wanted column of an interval are not read.
//
// It knows the layout of a private struct of libjpeg-turbo, the same since
// libjpeg 6: Fits() is false when it was compiled with the headers of a library
// that it was not tested with, LayoutIsKnown() when the loaded one differs. Not
// thread-safe: one per decoder. It keeps its tables from image to image (built
// anew when an image has others). Damage is reported as libjpeg's error.
//
//   if (FastEntropy::Fits(info) && FastEntropy::LayoutIsKnown(info)) {
//     entropy.Attach(&info, data_left, {}, 0, info.MCUs_per_row - 1);
//   }

#ifndef MILLRACE_SERVER_DECODE_FAST_ENTROPY_H_
#define MILLRACE_SERVER_DECODE_FAST_ENTROPY_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>

// After stdio.h, which it needs.
#include <jpeglib.h>

#include "absl/types/span.h"

namespace millrace::decode {

class FastEntropy {
 public:
  FastEntropy();
  ~FastEntropy();
  FastEntropy(const FastEntropy&) = delete;
  FastEntropy& operator=(const FastEntropy&) = delete;

  // Whether the image, whose header is read, is one Huffman-coded sequential
  // scan.
  static bool Fits(const jpeg_decompress_struct& info);

  // Whether the entropy decoder that the loaded libjpeg has made looks like the
  // struct that Attach() replaces: two functions of the library, then a flag
  // that is not set. After jpeg_start_decompress() of an image that Fits().
  static bool LayoutIsKnown(const jpeg_decompress_struct& info);

  // Memory for a scan of at most `bytes`; false when there is none. Before
  // Attach(), where a failure could not be reported.
  bool Reserve(size_t bytes);

  // Takes over decoding of `scan`, the bytes from the first entropy-coded one
  // to the end of the data, and outlives it, as does `index`, the payload of a
  // seek index, which need not be right; empty: there is none. It is used when
  // restart intervals are a row of MCUs or longer. Coefficients are stored for
  // the MCU columns first .. last of each row. Never fails, destroys nothing.
  void Attach(jpeg_decompress_struct* info, absl::Span<const uint8_t> scan,
              absl::Span<const uint8_t> index, uint32_t first_column,
              uint32_t last_column);

  // Whether the data ended without a marker.
  bool truncated() const;

  void ReleaseAbove(size_t bytes);
  // Bytes that its buffer keeps for the next image.
  size_t kept_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_FAST_ENTROPY_H_
