#include "client/batch_files/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

namespace millrace::batch_files {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

template <typename T>
TensorLook Look(DType dtype, const std::vector<T>& values) {
  return LookAt(dtype, {reinterpret_cast<const uint8_t*>(values.data()),
                        values.size() * sizeof(T)});
}

// Byte for byte what numpy.save of NumPy 2.3 writes for
// numpy.zeros((2, 3), numpy.float32).
TEST(NpyTest, WritesWhatNumpyWrites) {
  const std::string header = NpyHeader(DTYPE_FLOAT32, {2, 3});
  std::string expected("\x93NUMPY\x01\x00v\x00", 10);
  expected += "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  expected.append(128 - 1 - expected.size(), ' ');
  expected += '\n';
  EXPECT_EQ(header, expected);
}

TEST(NpyTest, TuplesOfOneAndNoneArePythons) {
  EXPECT_THAT(NpyHeader(DTYPE_INT64, {5}), HasSubstr("'shape': (5,), }"));
  EXPECT_THAT(NpyHeader(DTYPE_INT64, {}), HasSubstr("'shape': (), }"));
}

TEST(NpyTest, EveryTypeHasItsName) {
  const std::pair<DType, const char*> cases[] = {
      {DTYPE_UINT8, "|u1"},   {DTYPE_BOOL, "|b1"},    {DTYPE_INT8, "|i1"},
      {DTYPE_INT16, "<i2"},   {DTYPE_UINT16, "<u2"},  {DTYPE_INT32, "<i4"},
      {DTYPE_INT64, "<i8"},   {DTYPE_FLOAT16, "<f2"}, {DTYPE_FLOAT32, "<f4"},
      {DTYPE_FLOAT64, "<f8"}, {DTYPE_BFLOAT16, "<u2"}};
  for (const auto& [dtype, descr] : cases) {
    const std::string header = NpyHeader(dtype, {1, 2, 3, 4});
    EXPECT_THAT(header, HasSubstr(descr));
    EXPECT_EQ(header.size() % 64, 0);
    EXPECT_THAT(header, EndsWith("\n"));
  }
}

TEST(NpyTest, WritesElementsBehindTheHeader) {
  const std::string path = ::testing::TempDir() + "/x.npy";
  std::remove(path.c_str());  // of an earlier run
  const uint8_t data[] = {1, 2, 3};
  ASSERT_TRUE(WriteNpy(path, DTYPE_UINT8, {3}, data).ok());
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(bytes, NpyHeader(DTYPE_UINT8, {3}) + "\x01\x02\x03");
  EXPECT_TRUE(absl::IsAlreadyExists(WriteNpy(path, DTYPE_UINT8, {3}, data)));
  EXPECT_THAT(
      std::string(WriteNpy("/none/x.npy", DTYPE_UINT8, {3}, data).message()),
      HasSubstr("/none/x.npy"));
}

TEST(NpyTest, LooksForWhatIsNoNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const TensorLook look = Look<float>(DTYPE_FLOAT32, {1.5f, -2, inf, nan, nan});
  EXPECT_EQ(look.elements, 5);
  EXPECT_EQ(look.nans, 2);
  EXPECT_EQ(look.infinities, 1);
  EXPECT_EQ(look.first_bad, 2);
  EXPECT_EQ(look.min, -2);
  EXPECT_EQ(look.max, 1.5);
  const TensorLook none = Look<float>(DTYPE_FLOAT32, {nan});
  EXPECT_TRUE(std::isnan(none.min) && std::isnan(none.max));
}

TEST(NpyTest, LooksAtEveryType) {
  EXPECT_EQ(Look<int8_t>(DTYPE_INT8, {-3, 4}).min, -3);
  EXPECT_EQ(Look<int16_t>(DTYPE_INT16, {-300, 4}).min, -300);
  EXPECT_EQ(Look<uint16_t>(DTYPE_UINT16, {65535, 4}).max, 65535);
  EXPECT_EQ(Look<int64_t>(DTYPE_INT64, {-1, 7}).max, 7);
  EXPECT_EQ(Look<double>(DTYPE_FLOAT64, {0.25}).max, 0.25);
  // 1.0, infinity, NaN in half precision; 1.0 and NaN as bfloat16.
  const TensorLook half =
      Look<uint16_t>(DTYPE_FLOAT16, {0x3C00, 0x7C00, 0x7E00});
  EXPECT_EQ(half.max, 1);
  EXPECT_EQ(half.infinities, 1);
  EXPECT_EQ(half.nans, 1);
  const TensorLook brain = Look<uint16_t>(DTYPE_BFLOAT16, {0x3F80, 0x7FC0});
  EXPECT_EQ(brain.max, 1);
  EXPECT_EQ(brain.nans, 1);
}

}  // namespace
}  // namespace millrace::batch_files
