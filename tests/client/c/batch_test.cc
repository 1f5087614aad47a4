// A batch that is made by hand: what C sees of it, of dense tensors and ragged
// ones, and how long exports keep it.

#include "client/c/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/c/millrace_dlpack.h"

namespace millrace::c {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kRows = 2;

struct alignas(64) Memory {
  uint8_t bytes[512] = {};
};

// Fields `pixels` uint8 [2, 3, 3] with a normalisation, `words` ragged int16
// [-1, 2], `big` int64 that is cast to int8, and `half` float16.
class BatchTest : public ::testing::Test {
 protected:
  BatchTest() {
    TensorSpec& pixels = Add("pixels", DTYPE_UINT8, {2, 3, 3});
    DeviceTransform& cast = *pixels.mutable_device_transform();
    cast.set_dtype(DTYPE_FLOAT32);
    cast.set_scale(1.0f / 255);
    for (int c = 0; c < 3; ++c) {
      cast.add_mean(0.5f);
      cast.add_stddev(0.25f);
    }
    Add("words", DTYPE_INT16, {-1, 2});
    Add("big", DTYPE_INT64, {})
        .mutable_device_transform()
        ->set_dtype(DTYPE_INT8);
    Add("half", DTYPE_FLOAT16, {5});
  }

  TensorSpec& Add(const char* name, DType dtype,
                  const std::vector<int64_t>& shape) {
    TensorSpec& spec = *plan_.add_tensors();
    spec.set_name(name);
    spec.set_dtype(dtype);
    for (const int64_t dim : shape) spec.add_sample_shape(dim);
    return spec;
  }

  // Rows of 1 and 2 words.
  millrace_batch* Make(bool read_only = false) {
    auto memory = std::make_shared<Memory>();
    memory_ = memory;
    HostBatch batch;
    batch.position = {7, 3};
    batch.rows = kRows;
    batch.local_valid = 1;
    batch.global_valid = 5;
    batch.first_position = 6;
    batch.generation = 4;
    batch.header.set_payload_xxh3(99);
    uint64_t offset = 0;
    const uint64_t bytes[] = {kRows * 18, 3 * 8, kRows * 8, kRows * 10};
    for (int i = 0; i < plan_.tensors_size(); ++i) {
      TensorHeader& header = *batch.header.add_tensors();
      header.set_name(plan_.tensors(i).name());
      header.set_dtype(plan_.tensors(i).dtype());
      *header.mutable_sample_shape() = plan_.tensors(i).sample_shape();
      header.set_offset(offset);
      header.set_bytes(bytes[i]);
      offset += 64;
    }
    batch.header.mutable_tensors(1)->set_values_offset(offset);
    batch.header.mutable_tensors(1)->set_values_bytes(3 * 2 * 2);
    for (uint64_t i = 0; i < bytes[0]; ++i) {
      memory->bytes[i] = static_cast<uint8_t>(7 * i);
    }
    const int64_t offsets[] = {0, 1, 3};
    std::memcpy(memory->bytes + 64, offsets, sizeof(offsets));
    const int64_t big[] = {-128, 127};
    std::memcpy(memory->bytes + 128, big, sizeof(big));
    batch.payload = absl::MakeSpan(memory->bytes, offset + 12);
    batch.lease = std::move(memory);
    return NewBatch(MakeBatchPlan(plan_, read_only), std::move(batch))
        .release();
  }

  static millrace_tensor Tensor(const millrace_batch* batch,
                                const std::string& name) {
    size_t index = 0;
    EXPECT_EQ(millrace_batch_find_tensor(batch, name.c_str(), &index, nullptr),
              MILLRACE_STATUS_OK);
    millrace_tensor tensor = {};
    tensor.struct_size = sizeof(tensor);
    EXPECT_EQ(millrace_batch_get_tensor(batch, index, &tensor, nullptr),
              MILLRACE_STATUS_OK);
    return tensor;
  }
  static std::vector<int64_t> List(const int64_t* first, int32_t count) {
    return {first, first + count};
  }

  OpenResponse plan_;
  std::weak_ptr<Memory> memory_;
};

TEST_F(BatchTest, DescribesItself) {
  millrace_batch* const batch = Make();
  millrace_batch_info info;
  info.struct_size = sizeof(info);
  ASSERT_EQ(millrace_batch_get_info(batch, &info, nullptr), MILLRACE_STATUS_OK);
  EXPECT_EQ(info.struct_size, sizeof(info));
  EXPECT_EQ(info.tensor_count, 5);
  EXPECT_EQ(info.epoch, 7);
  EXPECT_EQ(info.step, 3);
  EXPECT_EQ(info.rows, 2);
  EXPECT_EQ(info.local_valid, 1);
  EXPECT_EQ(info.global_valid, 5);
  EXPECT_EQ(info.first_position, 6);
  EXPECT_EQ(info.generation, 4);
  EXPECT_EQ(info.data, memory_.lock()->bytes);
  EXPECT_EQ(info.bytes, 4 * 64 + 12);
  EXPECT_EQ(info.payload_xxh3, 99);
  millrace_batch_free(batch);
}

TEST_F(BatchTest, DescribesDenseTensors) {
  millrace_batch* const batch = Make();
  const millrace_tensor pixels = Tensor(batch, "pixels");
  EXPECT_STREQ(pixels.name, "pixels");
  EXPECT_EQ(pixels.kind, MILLRACE_TENSOR_DENSE);
  EXPECT_EQ(pixels.dtype, MILLRACE_DTYPE_UINT8);
  EXPECT_THAT(List(pixels.shape, pixels.dims), ElementsAre(2, 2, 3, 3));
  EXPECT_THAT(List(pixels.strides, pixels.dims), ElementsAre(18, 9, 3, 1));
  EXPECT_EQ(pixels.bytes, 36);
  EXPECT_EQ(pixels.read_only, 0);
  EXPECT_EQ(pixels.channels_first_view, 1);
  EXPECT_EQ(pixels.cast_dtype, MILLRACE_DTYPE_FLOAT32);
  EXPECT_EQ(pixels.cast_bytes, 36 * 4);
  const millrace_tensor half = Tensor(batch, "half");
  EXPECT_THAT(List(half.shape, half.dims), ElementsAre(2, 5));
  EXPECT_THAT(List(half.strides, half.dims), ElementsAre(10, 2));
  EXPECT_EQ(half.channels_first_view, 0);
  EXPECT_EQ(half.cast_dtype, MILLRACE_DTYPE_NONE);
  millrace_batch_free(batch);
}

TEST_F(BatchTest, ARaggedFieldIsTwoTensors) {
  millrace_batch* const batch = Make();
  const millrace_tensor words = Tensor(batch, "words");
  EXPECT_EQ(words.kind, MILLRACE_TENSOR_VALUES);
  EXPECT_THAT(List(words.shape, words.dims), ElementsAre(3, 2));
  EXPECT_THAT(List(words.strides, words.dims), ElementsAre(4, 2));
  EXPECT_EQ(words.bytes, 12);
  const millrace_tensor offsets = Tensor(batch, "words.offsets");
  EXPECT_EQ(offsets.kind, MILLRACE_TENSOR_OFFSETS);
  EXPECT_EQ(offsets.dtype, MILLRACE_DTYPE_INT64);
  EXPECT_THAT(List(offsets.shape, offsets.dims), ElementsAre(3));
  EXPECT_THAT(List(static_cast<const int64_t*>(offsets.data), 3),
              ElementsAre(0, 1, 3));
  millrace_batch_free(batch);
}

TEST_F(BatchTest, ComputesWhatThePipelineLeavesToTheClient) {
  millrace_batch* const batch = Make();
  std::vector<float> result(36);
  ASSERT_EQ(millrace_batch_cast(batch, 0, result.data(), 36 * 4, nullptr),
            MILLRACE_STATUS_OK);
  for (int i = 0; i < 36; ++i) {
    const float pixel = static_cast<float>(static_cast<uint8_t>(7 * i));
    EXPECT_EQ(result[i], (pixel * (1.0f / 255) - 0.5f) / 0.25f) << i;
  }
  // `big` stands behind the two tensors of `words`.
  std::vector<int8_t> small(2);
  ASSERT_EQ(millrace_batch_cast(batch, 3, small.data(), 2, nullptr),
            MILLRACE_STATUS_OK);
  EXPECT_THAT(small, ElementsAre(-128, 127));

  millrace_error* error = nullptr;
  const int64_t too_big = 128;
  std::memcpy(memory_.lock()->bytes + 136, &too_big, sizeof(too_big));
  EXPECT_EQ(millrace_batch_cast(batch, 3, small.data(), 2, &error),
            MILLRACE_STATUS_DATA_LOSS);
  EXPECT_STREQ(millrace_error_message(error),
               "a value of tensor big does not fit into int8");
  millrace_error_free(error);
  EXPECT_EQ(millrace_batch_cast(batch, 3, small.data(), 3, &error),
            MILLRACE_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(millrace_error_message(error), HasSubstr("3 bytes; it needs 2"));
  millrace_error_free(error);
  EXPECT_EQ(millrace_batch_cast(batch, 3, nullptr, 2, nullptr),
            MILLRACE_STATUS_INVALID_ARGUMENT);
  EXPECT_EQ(millrace_batch_cast(batch, 4, small.data(), 2, &error),
            MILLRACE_STATUS_FAILED_PRECONDITION);
  EXPECT_THAT(millrace_error_message(error),
              HasSubstr("leaves nothing to compute for tensor half"));
  millrace_error_free(error);
  millrace_batch_free(batch);
}

TEST_F(BatchTest, AnUnknownTensorIsAnErrorThatNamesTheKnownOnes) {
  millrace_batch* const batch = Make();
  size_t index = 17;
  millrace_error* error = nullptr;
  EXPECT_EQ(millrace_batch_find_tensor(batch, "image", &index, &error),
            MILLRACE_STATUS_NOT_FOUND);
  EXPECT_EQ(index, 0);
  EXPECT_STREQ(millrace_error_message(error),
               "the batch has no tensor \"image\"; it has pixels, words, "
               "words.offsets, big, half");
  millrace_error_free(error);
  millrace_tensor tensor = {};
  tensor.struct_size = sizeof(tensor);
  EXPECT_EQ(millrace_batch_get_tensor(batch, 5, &tensor, &error),
            MILLRACE_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(millrace_error_message(error), HasSubstr("number 5"));
  millrace_error_free(error);
  millrace_batch_free(batch);
}

TEST_F(BatchTest, StructsOfOtherReleasesAreFilledAsFarAsTheyGo) {
  millrace_batch* const batch = Make();
  // A later release's: what this library does not know is 0.
  struct {
    millrace_batch_info info;
    uint64_t later[2];
  } larger;
  std::memset(&larger, 0xff, sizeof(larger));
  larger.info.struct_size = sizeof(larger);
  ASSERT_EQ(millrace_batch_get_info(batch, &larger.info, nullptr),
            MILLRACE_STATUS_OK);
  EXPECT_EQ(larger.info.struct_size, sizeof(larger));
  EXPECT_EQ(larger.info.payload_xxh3, 99);
  EXPECT_EQ(larger.later[0], 0);
  EXPECT_EQ(larger.later[1], 0);
  // Uninitialised.
  millrace_error* error = nullptr;
  larger.info.struct_size = 8;
  EXPECT_EQ(millrace_batch_get_info(batch, &larger.info, &error),
            MILLRACE_STATUS_INVALID_ARGUMENT);
  EXPECT_THAT(millrace_error_message(error),
              HasSubstr("millrace_batch_info.struct_size is 8; set it to"));
  millrace_error_free(error);
  millrace_batch_free(batch);
}

TEST_F(BatchTest, AnExportKeepsTheMemoryOfTheBatch) {
  millrace_batch* const batch = Make();
  DLManagedTensorVersioned* first = nullptr;
  DLManagedTensor* second = nullptr;
  ASSERT_EQ(millrace_batch_dlpack_versioned(batch, 0, &first, nullptr),
            MILLRACE_STATUS_OK);
  ASSERT_EQ(millrace_batch_dlpack(batch, 4, &second, nullptr),
            MILLRACE_STATUS_OK);
  millrace_batch_free(batch);
  ASSERT_FALSE(memory_.expired());

  EXPECT_EQ(first->version.major, 1);
  EXPECT_EQ(first->version.minor, 0);
  EXPECT_EQ(first->flags, 0);
  const DLTensor& pixels = first->dl_tensor;
  EXPECT_EQ(pixels.device.device_type, kDLCPU);
  EXPECT_EQ(pixels.device.device_id, 0);
  EXPECT_EQ(pixels.dtype.code, kDLUInt);
  EXPECT_EQ(pixels.dtype.bits, 8);
  EXPECT_EQ(pixels.dtype.lanes, 1);
  EXPECT_EQ(pixels.byte_offset, 0);
  EXPECT_THAT(List(pixels.shape, pixels.ndim), ElementsAre(2, 2, 3, 3));
  EXPECT_THAT(List(pixels.strides, pixels.ndim), ElementsAre(18, 9, 3, 1));
  EXPECT_EQ(static_cast<uint8_t*>(pixels.data)[1], 7);
  EXPECT_EQ(second->dl_tensor.dtype.code, kDLFloat);
  EXPECT_EQ(second->dl_tensor.dtype.bits, 16);
  EXPECT_THAT(List(second->dl_tensor.strides, 2), ElementsAre(5, 1))
      << "in elements";

  second->deleter(second);
  EXPECT_FALSE(memory_.expired());
  first->deleter(first);
  EXPECT_TRUE(memory_.expired());
}

TEST_F(BatchTest, ReadOnlyMemoryIsMarked) {
  millrace_batch* const batch = Make(/*read_only=*/true);
  EXPECT_EQ(Tensor(batch, "half").read_only, 1);
  DLManagedTensorVersioned* tensor = nullptr;
  ASSERT_EQ(millrace_batch_dlpack_versioned(batch, 0, &tensor, nullptr),
            MILLRACE_STATUS_OK);
  EXPECT_EQ(tensor->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  tensor->deleter(tensor);
  millrace_error* error = nullptr;
  auto* unversioned = reinterpret_cast<DLManagedTensor*>(&error);
  EXPECT_EQ(millrace_batch_dlpack(batch, 0, &unversioned, &error),
            MILLRACE_STATUS_FAILED_PRECONDITION);
  EXPECT_EQ(unversioned, nullptr);
  EXPECT_THAT(millrace_error_message(error), HasSubstr("read-only memory"));
  millrace_error_free(error);
  millrace_batch_free(batch);
}

// All element types of the wire.
TEST_F(BatchTest, ExportsEveryElementType) {
  const struct {
    DType dtype;
    int code;
    int bits;
  } kTypes[] = {
      {DTYPE_UINT8, kDLUInt, 8},     {DTYPE_BOOL, kDLBool, 8},
      {DTYPE_INT32, kDLInt, 32},     {DTYPE_INT64, kDLInt, 64},
      {DTYPE_FLOAT32, kDLFloat, 32}, {DTYPE_FLOAT64, kDLFloat, 64},
      {DTYPE_FLOAT16, kDLFloat, 16}, {DTYPE_BFLOAT16, kDLBfloat, 16},
      {DTYPE_INT8, kDLInt, 8},       {DTYPE_INT16, kDLInt, 16},
      {DTYPE_UINT16, kDLUInt, 16},
  };
  for (const auto& type : kTypes) {
    HostBatch host;
    host.rows = 1;
    TensorHeader& header = *host.header.add_tensors();
    header.set_dtype(type.dtype);
    Memory memory;
    host.payload = absl::MakeSpan(memory.bytes);
    millrace_batch* const batch =
        NewBatch(std::make_shared<BatchPlan>(), std::move(host)).release();
    DLManagedTensorVersioned* tensor = nullptr;
    ASSERT_EQ(millrace_batch_dlpack_versioned(batch, 0, &tensor, nullptr),
              MILLRACE_STATUS_OK);
    EXPECT_EQ(tensor->dl_tensor.dtype.code, type.code) << type.dtype;
    EXPECT_EQ(tensor->dl_tensor.dtype.bits, type.bits) << type.dtype;
    tensor->deleter(tensor);
    millrace_batch_free(batch);
  }
}

}  // namespace
}  // namespace millrace::c
