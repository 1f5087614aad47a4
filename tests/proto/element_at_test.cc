#include "proto/element_at.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "proto/half_float.h"

namespace millrace {
namespace {

// The second of two elements.
template <typename T>
double Second(DType dtype, T second) {
  const T both[] = {T{1}, second};
  return ElementAt(reinterpret_cast<const uint8_t*>(both), dtype, 1);
}

TEST(ElementAt, ReadsEveryType) {
  EXPECT_EQ(Second<uint8_t>(DTYPE_UINT8, 200), 200.0);
  EXPECT_EQ(Second<uint8_t>(DTYPE_BOOL, 1), 1.0);
  EXPECT_EQ(Second<int8_t>(DTYPE_INT8, -3), -3.0);
  EXPECT_EQ(Second<int16_t>(DTYPE_INT16, -3), -3.0);
  EXPECT_EQ(Second<uint16_t>(DTYPE_UINT16, 65535), 65535.0);
  EXPECT_EQ(Second<int32_t>(DTYPE_INT32, -3), -3.0);
  EXPECT_EQ(Second<int64_t>(DTYPE_INT64, -100), -100.0);
  EXPECT_EQ(Second<uint16_t>(DTYPE_FLOAT16, FloatToHalf(0.5f)), 0.5);
  EXPECT_EQ(Second<uint16_t>(DTYPE_BFLOAT16, FloatToBfloat16(-2.0f)), -2.0);
  EXPECT_EQ(Second<float>(DTYPE_FLOAT32, 0.5f), 0.5);
  EXPECT_EQ(Second<double>(DTYPE_FLOAT64, -0.25), -0.25);
  EXPECT_EQ(Second<uint8_t>(DTYPE_UNSPECIFIED, 7), 0.0);
}

}  // namespace
}  // namespace millrace
