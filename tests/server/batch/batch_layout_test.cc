#include "server/batch/batch_layout.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace millrace::batch {
namespace {

TensorSpec Tensor(const std::string& name, DType dtype,
                  std::vector<int64_t> shape, int64_t classes = 0) {
  TensorSpec spec;
  spec.set_name(name);
  spec.set_dtype(dtype);
  spec.mutable_sample_shape()->Add(shape.begin(), shape.end());
  spec.set_num_classes(classes);
  return spec;
}

BatchLayout Layout(const std::vector<TensorSpec>& tensors) {
  auto layout = BatchLayout::Create(tensors);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

TEST(BatchLayout, TensorsAreAlignedAndDoNotOverlap) {
  const BatchLayout layout = Layout({Tensor("image", DTYPE_UINT8, {3, 5, 3}),
                                     Tensor("label", DTYPE_INT64, {}, 10),
                                     Tensor("box", DTYPE_FLOAT32, {4}),
                                     Tensor("flag", DTYPE_BOOL, {1})});
  for (uint64_t rows : {0, 1, 2, 63, 64, 65}) {
    const BatchLayout::Placed placed = layout.ForRows(rows);
    BatchHeader header;
    placed.Describe(header);
    ASSERT_EQ(header.tensors_size(), 6);
    EXPECT_EQ(header.tensors(4).name(), "sample_index");
    EXPECT_EQ(header.tensors(5).name(), "valid");
    EXPECT_EQ(header.payload_bytes(), layout.PayloadBytes(rows));
    EXPECT_EQ(header.payload_bytes() % 64, 0u);
    uint64_t end = 0;
    for (const TensorHeader& tensor : header.tensors()) {
      EXPECT_EQ(tensor.offset() % 64, 0u);
      EXPECT_GE(tensor.offset(), end);
      EXPECT_LT(tensor.offset() - end, 64u);
      end = tensor.offset() + tensor.bytes();
    }
    EXPECT_EQ(header.tensors(0).bytes(), rows * 45);
    EXPECT_EQ(header.tensors(1).bytes(), rows * 8);
    EXPECT_EQ(header.tensors(2).bytes(), rows * 16);
    EXPECT_LE(end, header.payload_bytes());
    EXPECT_LT(header.payload_bytes() - end, 64u);
  }
  EXPECT_EQ(layout.tensors(), 4);
  EXPECT_EQ(layout.row_bytes(), 45u + 8 + 16 + 1 + 8 + 1);
}

// Whatever was in the memory before, every byte is written.
TEST(BatchLayout, NoByteIsLeftOver) {
  const BatchLayout layout = Layout({Tensor("a", DTYPE_UINT8, {7}),
                                     Tensor("label", DTYPE_INT64, {}, 10),
                                     Tensor("index", DTYPE_INT64, {})});
  const BatchLayout::Placed placed = layout.ForRows(5);
  std::vector<std::string> results;
  for (char before : {'\x00', '\xff'}) {
    std::string payload(placed.payload_bytes(), before);
    auto* data = reinterpret_cast<uint8_t*>(payload.data());
    for (int row = 0; row < 3; ++row) {
      for (int tensor = 0; tensor < layout.tensors(); ++tensor) {
        std::memset(placed.Row(data, tensor, row), row + 1,
                    layout.row_bytes(tensor));
      }
      placed.SetSample(data, row, 100 + row, true);
    }
    placed.FillEmptyRow(data, 3, -1);
    placed.FillEmptyRow(data, 4, 77);
    placed.ZeroGaps(data);
    results.push_back(payload);
  }
  EXPECT_EQ(results[0], results[1]);
  auto* data = reinterpret_cast<uint8_t*>(results[0].data());
  const auto int64_at = [&](int tensor, int row) {
    int64_t value;
    std::memcpy(&value, placed.Row(data, tensor, row), sizeof(value));
    return value;
  };
  EXPECT_EQ(int64_at(1, 3), -100);  // a class
  EXPECT_EQ(int64_at(2, 3), 0);     // not a class
  EXPECT_EQ(int64_at(3, 2), 102);
  EXPECT_EQ(int64_at(3, 3), -1);
  EXPECT_EQ(int64_at(3, 4), 77);
  EXPECT_EQ(*placed.Row(data, 0, 4), 0);
  EXPECT_EQ(*placed.Row(data, 4, 2), 1);
  EXPECT_EQ(*placed.Row(data, 4, 3), 0);
}

TEST(BatchLayout, LeavesClassesOfEveryTypeOut) {
  const BatchLayout layout = Layout(
      {Tensor("a", DTYPE_INT8, {}, 10), Tensor("b", DTYPE_INT16, {}, 10),
       Tensor("c", DTYPE_INT32, {}, 10), Tensor("d", DTYPE_FLOAT32, {}, 10),
       Tensor("soft", DTYPE_FLOAT32, {10}, 10), Tensor("e", DTYPE_UINT8, {}, 9),
       Tensor("one", DTYPE_INT64, {1}, 10)});
  const BatchLayout::Placed placed = layout.ForRows(1);
  std::vector<uint8_t> payload(placed.payload_bytes(), 0xff);
  placed.FillEmptyRow(payload.data(), 0, -1);
  auto holds = [&](int tensor, auto value) {
    return std::memcmp(placed.Row(payload.data(), tensor, 0), &value,
                       sizeof(value)) == 0;
  };
  EXPECT_TRUE(holds(0, int8_t{-100}));
  EXPECT_TRUE(holds(1, int16_t{-100}));
  EXPECT_TRUE(holds(2, int32_t{-100}));
  EXPECT_TRUE(holds(3, -100.0f));
  EXPECT_TRUE(holds(4, std::array<float, 10>{}));  // shares of classes: none
  EXPECT_TRUE(holds(5, uint8_t{0}));               // no -100 in there
  EXPECT_TRUE(holds(6, int64_t{0}));               // a vector is no class
}

TEST(BatchLayout, RefusesWhatItCannotLayOut) {
  const auto code = [](const TensorSpec& tensor) {
    return BatchLayout::Create({tensor}).status().code();
  };
  EXPECT_EQ(code(Tensor("text", DTYPE_UINT8, {-1})),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code(Tensor("x", DTYPE_UNSPECIFIED, {1})),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Tensor("x", DTYPE_UINT8, {0})),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Tensor("x", DTYPE_UINT8, {-2})),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      code(Tensor("x", DTYPE_INT64, {int64_t{1} << 40, int64_t{1} << 40})),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace millrace::batch
