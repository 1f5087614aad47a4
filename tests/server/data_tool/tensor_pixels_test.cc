#include "server/data_tool/tensor_pixels.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace millrace::data_tool {
namespace {

TEST(TensorPixels, CutOutOfRangeAndNotANumber) {
  const float values[] = {-1, 2, std::numeric_limits<float>::quiet_NaN(), 0.5};
  PixelFormat format;
  format.dtype = DTYPE_FLOAT32;
  format.height = 2;
  format.width = 2;
  format.channels = 1;
  format.scale = 255;
  const picture::RgbImage image =
      ToRgb(reinterpret_cast<const uint8_t*>(values), format);
  EXPECT_EQ(image.At(0, 0).r, 0);
  EXPECT_EQ(image.At(1, 0).r, 255);
  EXPECT_EQ(image.At(0, 1).r, 0);
  EXPECT_EQ(image.At(1, 1).r, 128);
}

}  // namespace
}  // namespace millrace::data_tool
