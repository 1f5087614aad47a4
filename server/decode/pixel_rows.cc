#include "server/decode/pixel_rows.h"

#include <algorithm>

namespace millrace::decode {

void RgbRowToGray(const uint8_t* from, int64_t pixels, uint8_t* to) {
  for (int64_t i = 0; i < pixels; ++i, from += 3) {
    to[i] = static_cast<uint8_t>(
        (from[0] * 19595u + from[1] * 38470u + from[2] * 7471u + 32768u) >> 16);
  }
}

void GrayRowToRgb(const uint8_t* from, int64_t pixels, uint8_t* to) {
  for (int64_t i = 0; i < pixels; ++i, to += 3) {
    to[0] = to[1] = to[2] = from[i];
  }
}

void InvertedCmykRowToRgb(const uint8_t* from, int64_t pixels, uint8_t* to) {
  for (int64_t i = 0; i < pixels; ++i, from += 4, to += 3) {
    const int light = from[3];  // 255 - K
    for (int c = 0; c < 3; ++c) {
      // ink * light / 255, rounded to nearest.
      const int product = (255 - from[c]) * light + 128;
      const int taken = ((product >> 8) + product) >> 8;
      to[c] = static_cast<uint8_t>(std::max(0, light - taken));
    }
  }
}

}  // namespace millrace::decode
