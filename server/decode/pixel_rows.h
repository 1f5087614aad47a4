// Conversions of a row of pixels, as Pillow's Image.convert() does them.
//
// Pure functions; `from` and `to` do not overlap unless said.

#ifndef MILLRACE_SERVER_DECODE_PIXEL_ROWS_H_
#define MILLRACE_SERVER_DECODE_PIXEL_ROWS_H_

#include <cstdint>

namespace millrace::decode {

// Luma of ITU-R 601-2: (19595 R + 38470 G + 7471 B + 32768) >> 16.
void RgbRowToGray(const uint8_t* from, int64_t pixels, uint8_t* to);

void GrayRowToRgb(const uint8_t* from, int64_t pixels, uint8_t* to);

// Adobe's CMYK, which JPEGs store inverted (255 is no ink).
void InvertedCmykRowToRgb(const uint8_t* from, int64_t pixels, uint8_t* to);

}  // namespace millrace::decode

#endif  // MILLRACE_SERVER_DECODE_PIXEL_ROWS_H_
