#include "server/data_tool/tensor_pixels.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "proto/half_float.h"

namespace millrace::data_tool {
namespace {

TEST(TensorPixels, ReadsEveryType) {
  const uint16_t half = FloatToHalf(0.5f);
  const uint16_t brain = FloatToBfloat16(-2.0f);
  const auto bytes = [](const auto& value) {
    return reinterpret_cast<const uint8_t*>(&value);
  };
  EXPECT_EQ(ElementAt(bytes(half), DTYPE_FLOAT16, 0), 0.5);
  EXPECT_EQ(ElementAt(bytes(brain), DTYPE_BFLOAT16, 0), -2.0);
  const int16_t small[] = {7, -3};
  EXPECT_EQ(ElementAt(bytes(small), DTYPE_INT16, 1), -3.0);
  const int64_t large = -100;
  EXPECT_EQ(ElementAt(bytes(large), DTYPE_INT64, 0), -100.0);
  // Out of range and not a number are cut.
  const float values[] = {-1, 2, std::numeric_limits<float>::quiet_NaN(), 0.5};
  PixelFormat format;
  format.dtype = DTYPE_FLOAT32;
  format.height = 2;
  format.width = 2;
  format.channels = 1;
  format.scale = 255;
  const picture::RgbImage image = ToRgb(bytes(values), format);
  EXPECT_EQ(image.At(0, 0).r, 0);
  EXPECT_EQ(image.At(1, 0).r, 255);
  EXPECT_EQ(image.At(0, 1).r, 0);
  EXPECT_EQ(image.At(1, 1).r, 128);
}

}  // namespace
}  // namespace millrace::data_tool
