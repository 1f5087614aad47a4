// Writes PNGs of every kind with libpng, for tests.

#ifndef MILLRACE_TESTS_TESTING_IMAGES_PNG_WRITER_H_
#define MILLRACE_TESTS_TESTING_IMAGES_PNG_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

struct PngKind {
  int width = 20;
  int height = 14;
  int bit_depth = 8;   // 1, 2, 4 (grey and palette), 8 or 16
  int color_type = 2;  // PNG's: 0 grey, 2 RGB, 3 palette, 4 grey+alpha,
                       // 6 RGB+alpha
  bool interlaced = false;
  std::vector<uint8_t> exif;  // from its TIFF header on; empty: none
  int texts = 0;              // compressed ones, of `text_bytes` equal letters
  int text_bytes = 0;
  std::vector<uint8_t> palette;  // RGB of each colour
  // Written behind the pixels (4 letters), as it is; empty: none.
  std::string last_chunk;
  std::vector<uint8_t> last_data;
};

// `samples`: rows as PNG stores them (16-bit big-endian).
std::vector<uint8_t> WritePng(const PngKind& kind,
                              const std::vector<uint8_t>& samples);

}  // namespace millrace

#endif  // MILLRACE_TESTS_TESTING_IMAGES_PNG_WRITER_H_
