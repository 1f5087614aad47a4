#include "server/batch/row_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "proto/half_float.h"

namespace millrace::batch {
namespace {

using ::testing::ElementsAre;

TensorSpec Source(DType dtype, std::vector<int64_t> shape) {
  TensorSpec spec;
  spec.set_name("x");
  spec.set_dtype(dtype);
  for (int64_t dim : shape) spec.add_sample_shape(dim);
  return spec;
}

template <typename T>
std::vector<T> Apply(const TensorSpec& source, bool planes,
                     const std::vector<uint8_t>& bytes) {
  auto format = RowFormat::Make(source, planes);
  EXPECT_TRUE(format.ok()) << format.status();
  EXPECT_EQ(format->source_bytes(), bytes.size());
  std::vector<uint8_t> scratch(format->scratch_bytes());
  std::vector<T> out(bytes.size());
  EXPECT_TRUE(format->Apply(
      bytes.data(), reinterpret_cast<uint8_t*>(out.data()), scratch.data()));
  return out;
}

TEST(RowFormat, SplitsImagesIntoPlanes) {
  EXPECT_THAT(Apply<uint8_t>(Source(DTYPE_UINT8, {1, 2, 3}), true,
                             {1, 2, 3, 11, 12, 13}),
              ElementsAre(1, 11, 2, 12, 3, 13));
  EXPECT_THAT(
      Apply<uint8_t>(Source(DTYPE_UINT8, {2, 2, 1}), true, {1, 2, 3, 4}),
      ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(
      Apply<uint8_t>(Source(DTYPE_UINT8, {1, 2, 2}), true, {1, 2, 3, 4}),
      ElementsAre(1, 3, 2, 4));
}

TEST(RowFormat, NormalisesEitherLayoutAlike) {
  TensorSpec source = Source(DTYPE_UINT8, {2, 2, 3});
  DeviceTransform& transform = *source.mutable_device_transform();
  transform.set_dtype(DTYPE_FLOAT16);
  transform.set_scale(1.0f / 255);
  for (float mean : {0.1f, 0.2f, 0.3f}) transform.add_mean(mean);
  for (float stddev : {0.4f, 0.5f, 0.6f}) transform.add_stddev(stddev);
  const std::vector<uint8_t> bytes = {0,  10, 20,  30,  40,  50,
                                      60, 70, 255, 254, 253, 252};
  const auto pixels = Apply<uint16_t>(source, false, bytes);
  const auto planes = Apply<uint16_t>(source, true, bytes);
  for (int i = 0; i < 4; ++i) {
    for (int c = 0; c < 3; ++c) {
      const float scaled = static_cast<float>(bytes[3 * i + c]) * (1.0f / 255);
      const float centred = scaled - transform.mean(c);
      const uint16_t half = FloatToHalf(centred / transform.stddev(c));
      EXPECT_EQ(pixels[3 * i + c], half);
      EXPECT_EQ(planes[4 * c + i], half);
    }
  }
  auto format = RowFormat::Make(source, true);
  ASSERT_TRUE(format.ok());
  EXPECT_TRUE(format->moves_zero());
  EXPECT_FALSE(RowFormat::Make(Source(DTYPE_UINT8, {3}), false)->moves_zero());
}

TEST(RowFormat, SaysWhenALabelDoesNotFit) {
  TensorSpec source = Source(DTYPE_INT64, {});
  source.mutable_device_transform()->set_dtype(DTYPE_INT8);
  auto format = RowFormat::Make(source, false);
  ASSERT_TRUE(format.ok()) << format.status();
  EXPECT_EQ(format->source_bytes(), 8u);
  for (int64_t value : {int64_t{-100}, int64_t{126}, int64_t{300}}) {
    uint8_t stored[8], out = 0;
    std::memcpy(stored, &value, 8);
    EXPECT_EQ(format->Apply(stored, &out, nullptr), value < 128) << value;
    if (value < 128) {
      EXPECT_EQ(static_cast<int8_t>(out), value);
    }
  }
}

TEST(RowFormat, RefusesPlanesOfWhatIsNoImage) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      RowFormat::Make(Source(DTYPE_UINT8, {4}), true).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      RowFormat::Make(Source(DTYPE_FLOAT32, {1, 2, 3}), true).status()));
}

}  // namespace
}  // namespace millrace::batch
