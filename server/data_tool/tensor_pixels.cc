#include "server/data_tool/tensor_pixels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "proto/half_float.h"

namespace millrace::data_tool {
namespace {

template <typename T>
T Load(const uint8_t* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

}  // namespace

double ElementAt(const uint8_t* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DTYPE_BOOL:
    case DTYPE_UINT8:
      return data[index];
    case DTYPE_INT8:
      return Load<int8_t>(data, index);
    case DTYPE_UINT16:
      return Load<uint16_t>(data, index);
    case DTYPE_INT16:
      return Load<int16_t>(data, index);
    case DTYPE_INT32:
      return Load<int32_t>(data, index);
    case DTYPE_INT64:
      return static_cast<double>(Load<int64_t>(data, index));
    case DTYPE_FLOAT16:
      return HalfToFloat(Load<uint16_t>(data, index));
    case DTYPE_BFLOAT16:
      return Bfloat16ToFloat(Load<uint16_t>(data, index));
    case DTYPE_FLOAT32:
      return Load<float>(data, index);
    case DTYPE_FLOAT64:
      return Load<double>(data, index);
    default:
      return 0;
  }
}

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
