// Writes JPEGs of every odd kind with libjpeg, for tests.

#ifndef MILLRACE_TESTS_TESTING_IMAGES_JPEG_WRITER_H_
#define MILLRACE_TESTS_TESTING_IMAGES_JPEG_WRITER_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

struct JpegKind {
  int width = 64;
  int height = 48;
  int components = 3;  // 1 grey, 3 colour, 4 CMYK
  bool rgb = false;    // 3: stored as RGB, not YCbCr
  bool ycck = false;   // 4: stored as YCCK
  int h_sampling = 2;  // of the first component
  int v_sampling = 2;
  // Of each component, horizontal and vertical, in place of the two above.
  std::vector<std::array<int, 2>> sampling;
  bool wide_tables =
      false;  // quantisation tables of 16 bits where they need it
  bool progressive = false;
  bool separate_scans = false;  // a scan per component
  bool arithmetic = false;
  bool optimized = false;  // Huffman tables made for the image
  int restart_rows = 0;
  int quality = 85;
  bool adobe_marker = true;   // when libjpeg would write one
  std::vector<uint8_t> exif;  // from its TIFF header on; empty: none
  std::string xmp;            // empty: none
};

struct NamedJpegKind {
  std::string name;
  JpegKind kind;
};

// Each usual sampling at each of `sizes` (width, height): sequential,
// progressive, a scan per component, a restart marker every `restart_rows`
// rows, RGB and grey.
std::vector<NamedJpegKind> SampledJpegKinds(
    const std::vector<std::array<int, 2>>& sizes, int restart_rows);

// Pixels of smooth shades and noise, fixed by `seed`.
std::vector<uint8_t> TestPixels(int width, int height, int components,
                                uint64_t seed);

std::vector<uint8_t> WriteJpeg(const JpegKind& kind, uint64_t seed);

// A full decode with libjpeg's defaults at 1/divisor of the size, with no crop
// and no skipping: what the decoder under test must agree with. Interleaved
// `channels`: 1 or 3 by libjpeg itself, 4 (CMYK as stored).
std::vector<uint8_t> ReferenceDecode(const std::vector<uint8_t>& jpeg,
                                     int divisor, int channels);

}  // namespace millrace

#endif  // MILLRACE_TESTS_TESTING_IMAGES_JPEG_WRITER_H_
