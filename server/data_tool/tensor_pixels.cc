#include "server/data_tool/tensor_pixels.h"

#include <algorithm>

#include "proto/element_at.h"

namespace millrace::data_tool {

picture::RgbImage ToRgb(const uint8_t* data, const PixelFormat& f) {
  picture::RgbImage image(static_cast<int>(f.width),
                          static_cast<int>(f.height));
  const auto level = [&](int64_t y, int64_t x, int64_t c) {
    const int64_t index = f.planes ? (c * f.height + y) * f.width + x
                                   : (y * f.width + x) * f.channels + c;
    double value = ElementAt(data, f.dtype, index);
    if (!f.stddev.empty()) value *= f.stddev[c % f.stddev.size()];
    if (!f.mean.empty()) value += f.mean[c % f.mean.size()];
    value *= f.scale;
    if (!(value > 0)) return uint8_t{0};  // also NaN
    return static_cast<uint8_t>(std::min(value + 0.5, 255.0));
  };
  for (int64_t y = 0; y < f.height; ++y) {
    for (int64_t x = 0; x < f.width; ++x) {
      const uint8_t first = level(y, x, 0);
      picture::Rgb color = {first, first, first};
      if (f.channels >= 3) color = {first, level(y, x, 1), level(y, x, 2)};
      image.Set(static_cast<int>(x), static_cast<int>(y), color);
    }
  }
  return image;
}

}  // namespace millrace::data_tool
