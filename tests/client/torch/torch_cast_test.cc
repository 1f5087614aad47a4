// What libtorch's operations make on a device, and what servers and CPU clients
// make of the same bytes: bit for bit. Here on libtorch's CPU, whose operations
// round as those of its other devices.

#include "client/torch/torch_cast.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "client/torch/torch_types.h"
#include "proto/data_service.pb.h"
#include "proto/dtype.h"

namespace millrace::device {
namespace {

// Both results for all byte patterns that `elements` make.
void ExpectSame(const TensorSpec& spec, std::vector<uint8_t> source) {
  SCOPED_TRACE(spec.DebugString());
  auto cast = TensorCast::Make(spec);
  ASSERT_TRUE(cast.ok()) << cast.status();
  const uint64_t elements = source.size() / ElementBytes(spec.dtype());
  const uint64_t bytes = elements * ElementBytes(cast->target());
  std::vector<uint8_t> by_table(bytes), by_torch(bytes);
  ASSERT_TRUE(cast->Apply(source.data(), by_table.data(), elements));
  const std::vector<int64_t> sizes = TorchCastSizes(*cast, elements);
  TorchCast(
      *cast, MakeTorchCastConstants(*cast, at::kCPU),
      at::from_blob(source.data(), sizes, TorchType(spec.dtype())),
      at::from_blob(by_torch.data(), sizes, TorchType(cast->target())),
      NeedsTorchCastWork(*cast) ? at::empty(sizes, at::kFloat) : at::Tensor());
  EXPECT_EQ(by_table, by_torch);
}

std::vector<uint8_t> AllBytes(int channels) {
  std::vector<uint8_t> bytes(256 * channels * 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(i / channels + i % channels * 85);
  }
  return bytes;
}

constexpr DType kFloating[] = {DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_FLOAT32,
                               DTYPE_FLOAT64};

TEST(TorchCast, NormalisesToTheSameBits) {
  for (DType dtype : kFloating) {
    for (int channels : {1, 3, 4}) {
      for (bool first : {false, true}) {
        TensorSpec spec;
        spec.set_name("x");
        spec.set_dtype(DTYPE_UINT8);
        for (int64_t dim : {16, 16}) spec.add_sample_shape(dim);
        if (first) {
          spec.set_sample_shape(0, channels);
          spec.set_sample_shape(1, 16);
          spec.add_sample_shape(16);
        } else {
          spec.add_sample_shape(channels);
        }
        DeviceTransform& transform = *spec.mutable_device_transform();
        transform.set_dtype(dtype);
        transform.set_scale(1.0f / 255);
        transform.set_channels_first(first);
        for (int c = 0; c < channels; ++c) {
          transform.add_mean(0.485f - 0.03f * static_cast<float>(c));
          transform.add_stddev(0.229f - 0.005f * static_cast<float>(c));
        }
        ExpectSame(spec, AllBytes(channels));
        transform.clear_mean();
        transform.clear_stddev();
        ExpectSame(spec, AllBytes(channels));
      }
    }
  }
}

// A tensor of the host with a dimension is none for a GPU's kernels.
TEST(TorchCast, HandsTheScaleOverByValue) {
  TensorSpec spec;
  spec.set_name("x");
  spec.set_dtype(DTYPE_UINT8);
  spec.add_sample_shape(4);
  spec.mutable_device_transform()->set_dtype(DTYPE_FLOAT32);
  spec.mutable_device_transform()->set_scale(1.0f / 255);
  const auto cast = TensorCast::Make(spec);
  ASSERT_TRUE(cast.ok()) << cast.status();
  const at::Tensor scale = MakeTorchCastConstants(*cast, at::kCPU).scale;
  EXPECT_EQ(scale.dim(), 0);
  EXPECT_EQ(scale.item<float>(), 1.0f / 255);
}

TEST(TorchCast, CastsToTheSameBits) {
  auto spec_of = [](DType from, DType to) {
    TensorSpec spec;
    spec.set_name("x");
    spec.set_dtype(from);
    spec.mutable_device_transform()->set_dtype(to);
    return spec;
  };
  for (DType to :
       {DTYPE_INT16, DTYPE_UINT16, DTYPE_INT32, DTYPE_INT64, DTYPE_FLOAT16,
        DTYPE_BFLOAT16, DTYPE_FLOAT32, DTYPE_FLOAT64}) {
    ExpectSame(spec_of(DTYPE_UINT8, to), AllBytes(1));
    if (to != DTYPE_UINT16) ExpectSame(spec_of(DTYPE_INT8, to), AllBytes(1));
  }
  // Every half; NaNs may differ in bits that say nothing.
  std::vector<uint16_t> halves;
  for (uint32_t h = 0; h < 65536; ++h) {
    if ((h & 0x7c00) != 0x7c00) halves.push_back(static_cast<uint16_t>(h));
  }
  std::vector<uint8_t> bytes(halves.size() * 2);
  std::memcpy(bytes.data(), halves.data(), bytes.size());
  for (DType to : {DTYPE_BFLOAT16, DTYPE_FLOAT32, DTYPE_FLOAT64}) {
    ExpectSame(spec_of(DTYPE_FLOAT16, to), bytes);
  }
  // Floats all over the range, exactly between halves among them.
  std::vector<float> floats;
  for (uint32_t i = 0; i < 200000; ++i) {
    const uint32_t bits = i * 21471;  // about 2^32 / 200000
    float value;
    std::memcpy(&value, &bits, 4);
    if (value == value) floats.push_back(value);
    const uint32_t middle = (bits & 0xffffe000u) | 0x1000;
    std::memcpy(&value, &middle, 4);
    if (value == value) floats.push_back(value);
  }
  bytes.resize(floats.size() * 4);
  std::memcpy(bytes.data(), floats.data(), bytes.size());
  for (DType to : {DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_FLOAT64}) {
    ExpectSame(spec_of(DTYPE_FLOAT32, to), bytes);
  }
  std::vector<int64_t> numbers;
  for (int64_t i = -70000; i < 70000; ++i) numbers.push_back(i * 1000003);
  bytes.resize(numbers.size() * 8);
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  for (DType to : kFloating) ExpectSame(spec_of(DTYPE_INT64, to), bytes);
}

}  // namespace
}  // namespace millrace::device
