// The GPU's kernel on the host: its source is compiled here, and a driver that
// is none runs it for every thread of a grid, with the parameters that it is
// launched with. The results are those of TensorCast, bit for bit.

#include "client/torch/lookup_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "proto/data_service.pb.h"
#include "proto/dtype.h"
#include "proto/tensor_cast.h"

namespace millrace::device {
namespace {

using ::testing::HasSubstr;

// What OpenCL C has and C++ has not.
namespace opencl {
using uchar = uint8_t;
using ushort = uint16_t;
using uint = uint32_t;
using ulong = uint64_t;
template <typename T>
struct alignas(4 * sizeof(T)) Four {
  T x, y, z, w;
};
using uchar4 = Four<uchar>;
using ushort4 = Four<ushort>;
using uint4 = Four<uint>;
using ulong4 = Four<ulong>;
uint block = 0, thread_of_block = 0;
constexpr uint kThreads = 256;
uint __nvvm_read_ptx_sreg_ctaid_x() { return block; }
uint __nvvm_read_ptx_sreg_ntid_x() { return kThreads; }
uint __nvvm_read_ptx_sreg_tid_x() { return thread_of_block; }
#define __kernel
#define __global
#define restrict __restrict__
#include "client/torch/lookup_kernel.cl"
#undef restrict
#undef __global
#undef __kernel
}  // namespace opencl

// A driver whose functions are their names' addresses.
std::string loaded;
int launches = 0;
int fail_with = 0;
char module_of_driver;
const char* const kNames[] = {"lookup2", "lookup4", "lookup8"};

int LoadData(void** module, const void* image) {
  loaded = static_cast<const char*>(image);
  *module = &module_of_driver;
  return fail_with;
}
int GetFunction(void** function, void* module, const char* name) {
  EXPECT_EQ(module, &module_of_driver);
  for (const char* known : kNames) {
    if (std::strcmp(known, name) == 0) {
      *function = const_cast<char*>(known);
      // The text that is built in has it too.
      EXPECT_THAT(loaded, HasSubstr(std::string(".visible .entry ") + name));
      return 0;
    }
  }
  return 500;  // CUDA_ERROR_NOT_FOUND
}
template <typename T>
T Parameter(void** parameters, int i) {
  T value;
  std::memcpy(&value, parameters[i], sizeof(value));
  return value;
}
int LaunchKernel(void* function, unsigned grid_x, unsigned grid_y,
                 unsigned grid_z, unsigned block_x, unsigned block_y,
                 unsigned block_z, unsigned shared_bytes, void*,
                 void** parameters, void** extra) {
  if (fail_with != 0) return fail_with;
  ++launches;
  EXPECT_EQ(grid_y * grid_z * block_y * block_z, 1u);
  EXPECT_EQ(block_x, opencl::kThreads);
  EXPECT_EQ(shared_bytes, 0u);
  EXPECT_EQ(extra, nullptr);
  const auto run_with = [&](auto kernel, auto result) {
    using T = decltype(result);
    for (opencl::block = 0; opencl::block < grid_x; ++opencl::block) {
      for (opencl::thread_of_block = 0; opencl::thread_of_block < block_x;
           ++opencl::thread_of_block) {
        kernel(Parameter<const uint8_t*>(parameters, 0),
               Parameter<T*>(parameters, 1), Parameter<const T*>(parameters, 2),
               Parameter<uint32_t>(parameters, 3),
               Parameter<uint32_t>(parameters, 4),
               Parameter<uint32_t>(parameters, 5));
      }
    }
  };
  if (function == kNames[0]) run_with(opencl::lookup2, uint16_t{});
  if (function == kNames[1]) run_with(opencl::lookup4, uint32_t{});
  if (function == kNames[2]) run_with(opencl::lookup8, uint64_t{});
  return 0;
}

constexpr CudaDriver kDriver = {LoadData, GetFunction, LaunchKernel};

// Bytes of a device: aligned as slots are.
struct Bytes {
  explicit Bytes(uint64_t bytes)
      : storage((bytes + 63) / 64 + 1), size(bytes) {}
  struct alignas(64) Line {
    uint8_t bytes[64] = {};
  };
  uint8_t* data() { return storage[0].bytes; }
  std::vector<Line> storage;
  uint64_t size;
};

TensorSpec SpecOf(DType dtype, int channels, bool first, int height,
                  int width) {
  TensorSpec spec;
  spec.set_name("x");
  spec.set_dtype(DTYPE_UINT8);
  if (first) spec.add_sample_shape(channels);
  spec.add_sample_shape(height);
  spec.add_sample_shape(width);
  if (!first) spec.add_sample_shape(channels);
  DeviceTransform& transform = *spec.mutable_device_transform();
  transform.set_dtype(dtype);
  transform.set_scale(1.0f / 255);
  transform.set_channels_first(first);
  for (int c = 0; c < channels; ++c) {
    transform.add_mean(0.485f - 0.03f * static_cast<float>(c));
    transform.add_stddev(0.229f - 0.005f * static_cast<float>(c));
  }
  return spec;
}

TEST(LookupKernel, MakesWhatTheHostMakes) {
  const auto kernel = LookupKernel::Load(kDriver);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  launches = 0;
  int expected_launches = 0;
  for (const DType dtype :
       {DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_FLOAT32, DTYPE_FLOAT64}) {
    for (const int channels : {1, 3, 4, 5}) {
      for (const bool first : {false, true}) {
        // Less than a thread's four, with a rest, more than a block.
        for (const auto& [height, width] :
             {std::pair{1, 1}, {1, 3}, {5, 7}, {41, 43}}) {
          const auto cast =
              TensorCast::Make(SpecOf(dtype, channels, first, height, width));
          ASSERT_TRUE(cast.ok()) << cast.status();
          const uint64_t rows = 3;
          const uint64_t n = rows * cast->sample_elements();
          const uint64_t size = ElementBytes(dtype);
          Bytes source(n), expected(n * size), made(n * size + 64);
          Bytes tables(cast->table().size());
          std::memcpy(tables.data(), cast->table().data(),
                      cast->table().size());
          for (uint64_t i = 0; i < n; ++i) {
            source.data()[i] = static_cast<uint8_t>(i * 37 + i / 256);
          }
          std::memset(made.data(), 0xdd, made.size);
          ASSERT_TRUE(cast->Apply(source.data(), expected.data(), n));
          const LookupKernel::Work work = {.source = source.data(),
                                           .target = made.data(),
                                           .tables = tables.data(),
                                           .elements = n,
                                           .channels = cast->channels(),
                                           .run = cast->run(),
                                           .result_bytes = size};
          ASSERT_TRUE(LookupKernel::Fits(work));
          ASSERT_TRUE(kernel->Launch(nullptr, work).ok());
          ++expected_launches;
          EXPECT_EQ(std::memcmp(made.data(), expected.data(), n * size), 0)
              << DTypeName(dtype) << " of " << channels << " channels, "
              << height << " x " << width << (first ? ", planes" : "");
          for (int i = 0; i < 64; ++i) {
            ASSERT_EQ(made.data()[n * size + i], 0xdd) << "past the end";
          }
        }
      }
    }
  }
  EXPECT_EQ(launches, expected_launches);
}

TEST(LookupKernel, SaysWhatItCannotDo) {
  Bytes bytes(256);
  const LookupKernel::Work good = {.source = bytes.data(),
                                   .target = bytes.data() + 64,
                                   .tables = bytes.data() + 128,
                                   .elements = 8};
  EXPECT_TRUE(LookupKernel::Fits(good));
  const auto fits = [&good](auto change) {
    LookupKernel::Work work = good;
    change(work);
    return LookupKernel::Fits(work);
  };
  using Work = LookupKernel::Work;
  EXPECT_FALSE(fits([](Work& w) { w.source += 1; }));
  EXPECT_FALSE(fits([](Work& w) { w.target += 4; }));
  EXPECT_FALSE(fits([](Work& w) { w.tables += 2; }));
  EXPECT_FALSE(fits([](Work& w) { w.elements = uint64_t{1} << 32; }));
  EXPECT_FALSE(fits([](Work& w) { w.run = uint64_t{1} << 32; }));
  EXPECT_FALSE(fits([](Work& w) { w.channels = 0; }));
  EXPECT_FALSE(fits([](Work& w) { w.result_bytes = 1; }));
}

TEST(LookupKernel, PassesTheDriversErrorsOn) {
  fail_with = 218;  // CUDA_ERROR_INVALID_PTX
  EXPECT_THAT(std::string(LookupKernel::Load(kDriver).status().message()),
              HasSubstr("error 218"));
  fail_with = 0;
  const auto kernel = LookupKernel::Load(kDriver);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  fail_with = 700;  // CUDA_ERROR_ILLEGAL_ADDRESS
  EXPECT_TRUE(kernel->Launch(nullptr, {.elements = 0}).ok());
  EXPECT_TRUE(absl::IsInternal(kernel->Launch(nullptr, {.elements = 1})));
  fail_with = 0;
}

}  // namespace
}  // namespace millrace::device
