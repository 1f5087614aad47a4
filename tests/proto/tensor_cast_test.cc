#include "proto/tensor_cast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "proto/dtype.h"
#include "proto/half_float.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorSpec Spec(DType from, DType to, std::vector<int64_t> shape,
                float scale = 0) {
  TensorSpec spec;
  spec.set_name("x");
  spec.set_dtype(from);
  for (int64_t dim : shape) spec.add_sample_shape(dim);
  spec.mutable_device_transform()->set_dtype(to);
  spec.mutable_device_transform()->set_scale(scale);
  return spec;
}

template <typename To, typename From>
std::vector<To> Cast(const TensorSpec& spec, const std::vector<From>& from,
                     bool fits = true) {
  auto cast = TensorCast::Make(spec);
  EXPECT_TRUE(cast.ok()) << cast.status();
  // Unaligned on both sides.
  std::vector<uint8_t> in(from.size() * sizeof(From) + 1);
  std::vector<uint8_t> out(from.size() * sizeof(To) + 1);
  std::memcpy(in.data() + 1, from.data(), in.size() - 1);
  EXPECT_EQ(cast->Apply(in.data() + 1, out.data() + 1, from.size()), fits);
  std::vector<To> values(from.size());
  std::memcpy(values.data(), out.data() + 1, out.size() - 1);
  return values;
}

// Every half has neighbours: what lies between goes to the nearer one, the
// middle to the even one.
TEST(HalfFloat, RoundsToTheNearestOfTwoNeighbours) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto low = static_cast<uint16_t>(bits);
    const auto high = static_cast<uint16_t>(bits + 1);
    const float a = HalfToFloat(low);
    // The middle of the largest half and what would be the next.
    const float b = bits == 0x7bff ? 65536.0f : HalfToFloat(high);
    ASSERT_EQ(FloatToHalf(a), low);
    const float middle = a + (b - a) / 2;
    ASSERT_EQ(FloatToHalf(middle), bits % 2 == 0 ? low : high) << bits;
    ASSERT_EQ(FloatToHalf(std::nextafterf(middle, 0)), low) << bits;
    ASSERT_EQ(FloatToHalf(std::nextafterf(middle, 1e30f)), high) << bits;
    ASSERT_EQ(FloatToHalf(-std::nextafterf(middle, 1e30f)), high | 0x8000);
    ASSERT_EQ(HalfToFloat(low | 0x8000), -a);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(HalfToFloat(0x7c00), infinity);
  EXPECT_EQ(FloatToHalf(infinity), 0x7c00);
  EXPECT_EQ(FloatToHalf(-1e30f), 0xfc00);
  EXPECT_EQ(FloatToHalf(std::nanf("")), 0x7e00);
  EXPECT_TRUE(std::isnan(HalfToFloat(0x7e00)));
  EXPECT_EQ(FloatToHalf(-0.0f), 0x8000);
}

TEST(HalfFloat, RoundsBfloat16ToTheNearestOfTwoNeighbours) {
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const float middle = std::bit_cast<float>(bits << 16 | 0x8000);
    const auto low = static_cast<uint16_t>(bits);
    ASSERT_EQ(FloatToBfloat16(Bfloat16ToFloat(low)), low);
    ASSERT_EQ(FloatToBfloat16(middle), low + bits % 2);
    ASSERT_EQ(FloatToBfloat16(std::nextafterf(middle, 0)), low);
    ASSERT_EQ(FloatToBfloat16(-std::nextafterf(middle, INFINITY)),
              (low + 1) | 0x8000);
  }
  EXPECT_EQ(FloatToBfloat16(INFINITY), 0x7f80);
  EXPECT_EQ(FloatToBfloat16(std::nanf("")), 0x7fc0);
}

TEST(TensorCast, WidensWholeNumbers) {
  const std::vector<int8_t> labels = {0, 5, 126, 127, -100, -128};
  EXPECT_THAT((Cast<int64_t>(Spec(DTYPE_INT8, DTYPE_INT64, {}), labels)),
              ElementsAre(0, 5, 126, 127, -100, -128));
  EXPECT_THAT((Cast<float>(Spec(DTYPE_INT8, DTYPE_FLOAT32, {}), labels)),
              ElementsAre(0, 5, 126, 127, -100, -128));
  EXPECT_THAT((Cast<int32_t>(Spec(DTYPE_UINT16, DTYPE_INT32, {}),
                             std::vector<uint16_t>{0, 65535})),
              ElementsAre(0, 65535));
  EXPECT_THAT((Cast<int64_t>(Spec(DTYPE_UINT8, DTYPE_INT64, {1}),
                             std::vector<uint8_t>{0, 255})),
              ElementsAre(0, 255));
  EXPECT_THAT((Cast<uint8_t>(Spec(DTYPE_BOOL, DTYPE_UINT8, {}),
                             std::vector<uint8_t>{0, 1, 2})),
              ElementsAre(0, 1, 1));
}

TEST(TensorCast, SaysWhenAWholeNumberDoesNotFit) {
  const TensorSpec narrow = Spec(DTYPE_INT64, DTYPE_INT8, {});
  EXPECT_THAT((Cast<int8_t>(narrow, std::vector<int64_t>{-128, 127, -100})),
              ElementsAre(-128, 127, -100));
  for (int64_t value : {int64_t{128}, int64_t{-129}, int64_t{1} << 40,
                        std::numeric_limits<int64_t>::min()}) {
    Cast<int8_t>(narrow, std::vector<int64_t>{0, value, 1}, /*fits=*/false);
  }
  Cast<uint8_t>(Spec(DTYPE_INT8, DTYPE_UINT8, {}), std::vector<int8_t>{-1},
                /*fits=*/false);
}

TEST(TensorCast, CastsBetweenFloatingPointTypes) {
  const std::vector<float> values = {0.1f, -65519.0f, 65520.0f, 1e-8f, 3e38f};
  EXPECT_THAT((Cast<uint16_t>(Spec(DTYPE_FLOAT32, DTYPE_FLOAT16, {}), values)),
              ElementsAre(0x2e66, 0xfbff, 0x7c00, 0x0000, 0x7c00));
  EXPECT_THAT((Cast<uint16_t>(Spec(DTYPE_FLOAT32, DTYPE_BFLOAT16, {}), values)),
              ElementsAre(0x3dcd, 0xc780, 0x4780, 0x322c, 0x7f62));
  EXPECT_THAT((Cast<double>(Spec(DTYPE_FLOAT16, DTYPE_FLOAT64, {}),
                            std::vector<uint16_t>{0x2e66, 0x0001})),
              ElementsAre(0.0999755859375, 0x1p-24));
  EXPECT_THAT((Cast<float>(Spec(DTYPE_FLOAT64, DTYPE_FLOAT32, {}),
                           std::vector<double>{0.1})),
              ElementsAre(0.1f));
  // 2049 lies in the middle of two halves: the even one.
  EXPECT_THAT(
      (Cast<uint16_t>(Spec(DTYPE_INT64, DTYPE_FLOAT16, {}),
                      std::vector<int64_t>{2049, 2051, -100})),
      ElementsAre(FloatToHalf(2048), FloatToHalf(2052), FloatToHalf(-100)));
}

TensorSpec Normalised(DType to, std::vector<int64_t> shape,
                      bool channels_first = false) {
  TensorSpec spec = Spec(DTYPE_UINT8, to, shape, 1.0f / 255);
  DeviceTransform& transform = *spec.mutable_device_transform();
  const int64_t channels = channels_first ? shape.front() : shape.back();
  for (int64_t c = 0; c < channels; ++c) {
    transform.add_mean(0.25f + 0.125f * static_cast<float>(c));
    transform.add_stddev(0.3f + 0.1f * static_cast<float>(c));
  }
  transform.set_channels_first(channels_first);
  return spec;
}

float ByDefinition(uint8_t x, int64_t c) {
  const float scaled = static_cast<float>(x) * (1.0f / 255);
  const float centred = scaled - (0.25f + 0.125f * static_cast<float>(c));
  return centred / (0.3f + 0.1f * static_cast<float>(c));
}

TEST(TensorCast, NormalisesByTheFormulaInBothOrders) {
  for (int64_t channels : {1, 2, 3, 4}) {
    const int64_t pixels = 6;
    std::vector<uint8_t> bytes(2 * pixels * channels);  // two samples
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<uint8_t>(i * 37 + 11);
    }
    const auto last =
        Cast<float>(Normalised(DTYPE_FLOAT32, {2, 3, channels}), bytes);
    const auto first =
        Cast<float>(Normalised(DTYPE_FLOAT32, {channels, 2, 3}, true), bytes);
    const auto half =
        Cast<uint16_t>(Normalised(DTYPE_FLOAT16, {2, 3, channels}), bytes);
    const auto brain = Cast<uint16_t>(
        Normalised(DTYPE_BFLOAT16, {channels, 2, 3}, true), bytes);
    const auto wide =
        Cast<double>(Normalised(DTYPE_FLOAT64, {2, 3, channels}), bytes);
    for (size_t i = 0; i < bytes.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const float x = ByDefinition(bytes[i], at % channels);
      const float y = ByDefinition(bytes[i], at / pixels % channels);
      EXPECT_EQ(last[i], x);
      EXPECT_EQ(first[i], y);
      EXPECT_EQ(half[i], FloatToHalf(x));
      EXPECT_EQ(brain[i], FloatToBfloat16(y));
      EXPECT_EQ(wide[i], x);
    }
  }
}

TEST(TensorCast, ScalesWithoutAMean) {
  const auto values = Cast<float>(
      Spec(DTYPE_UINT8, DTYPE_FLOAT32, {2, 2, 3}, 1.0f / 255),
      std::vector<uint8_t>{0, 1, 2, 127, 128, 255, 9, 8, 7, 6, 5, 4});
  EXPECT_EQ(values[3], 127 * (1.0f / 255));
  EXPECT_EQ(values[5], 1.0f);
}

TEST(TensorCast, RefusesWhatItDoesNotKnow) {
  auto refusal = [](const TensorSpec& spec) {
    return TensorCast::Make(spec).status();
  };
  EXPECT_TRUE(
      absl::IsUnimplemented(refusal(Spec(DTYPE_FLOAT32, DTYPE_INT32, {3}))));
  EXPECT_TRUE(
      absl::IsUnimplemented(refusal(Spec(DTYPE_INT8, DTYPE_BOOL, {3}))));
  EXPECT_TRUE(absl::IsUnimplemented(
      refusal(Spec(DTYPE_INT16, DTYPE_FLOAT32, {3}, 0.5f))));
  EXPECT_TRUE(absl::IsUnimplemented(
      refusal(Spec(DTYPE_UINT8, DTYPE_INT32, {3}, 0.5f))));
  EXPECT_TRUE(
      absl::IsUnimplemented(refusal(Spec(DTYPE_UINT8, DTYPE_FLOAT32, {-1}))));
  EXPECT_TRUE(absl::IsUnimplemented(
      refusal(Spec(DTYPE_UINT8, DTYPE_UNSPECIFIED, {3}))));
  TensorSpec spec = Normalised(DTYPE_FLOAT32, {4, 4, 3});
  EXPECT_TRUE(TensorCast::Make(spec).ok());
  spec.mutable_device_transform()->set_stddev(1, 0);
  EXPECT_THAT(std::string(refusal(spec).message()), HasSubstr("in channel 1"));
  spec.mutable_device_transform()->set_stddev(1, 1);
  spec.mutable_device_transform()->add_mean(1);
  EXPECT_TRUE(absl::IsInvalidArgument(refusal(spec)));
  spec = Normalised(DTYPE_FLOAT32, {4, 4, 3});
  spec.clear_sample_shape();
  EXPECT_TRUE(absl::IsInvalidArgument(refusal(spec)));
  spec = Normalised(DTYPE_FLOAT32, {4, 4, 3});
  spec.mutable_device_transform()->set_scale(INFINITY);
  EXPECT_TRUE(absl::IsInvalidArgument(refusal(spec)));
}

}  // namespace
}  // namespace millrace
