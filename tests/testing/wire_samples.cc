#include "tests/testing/wire_samples.h"

#include <cstring>
#include <initializer_list>

namespace millrace::testing {
namespace {

constexpr uint64_t kRows = 3;
constexpr uint64_t kImage = 0, kLabel = 64, kOffsets = 128, kValues = 192,
                   kIndex = 256, kValid = 320, kPayload = 384;

void AddTensor(BatchHeader& header, const char* name, DType dtype,
               std::initializer_list<int64_t> shape, uint64_t offset,
               uint64_t bytes) {
  TensorHeader* tensor = header.add_tensors();
  tensor->set_name(name);
  tensor->set_dtype(dtype);
  for (int64_t d : shape) tensor->add_sample_shape(d);
  tensor->set_offset(offset);
  tensor->set_bytes(bytes);
}

void Put(std::vector<uint8_t>& payload, uint64_t offset,
         std::initializer_list<int64_t> values) {
  for (int64_t value : values) {
    std::memcpy(payload.data() + offset, &value, sizeof(value));
    offset += sizeof(value);
  }
}

}  // namespace

BatchHeader SampleHeader() {
  BatchHeader header;
  header.set_epoch(4);
  header.set_step(17);
  header.set_rank(1);
  header.set_world_size(2);
  header.set_rows(kRows);
  header.set_first_position(17 * 6 + 3);
  header.set_local_valid(2);
  header.set_global_valid(5);
  header.set_payload_bytes(kPayload);
  AddTensor(header, "image", DTYPE_UINT8, {2, 2, 3}, kImage, kRows * 12);
  AddTensor(header, "label", DTYPE_INT64, {}, kLabel, kRows * 8);
  AddTensor(header, "text", DTYPE_UINT8, {-1}, kOffsets, (kRows + 1) * 8);
  header.mutable_tensors(2)->set_values_offset(kValues);
  header.mutable_tensors(2)->set_values_bytes(5);
  AddTensor(header, "sample_index", DTYPE_INT64, {}, kIndex, kRows * 8);
  AddTensor(header, "valid", DTYPE_BOOL, {}, kValid, kRows);
  return header;
}

google::protobuf::RepeatedPtrField<TensorSpec> SampleTensors() {
  google::protobuf::RepeatedPtrField<TensorSpec> tensors;
  const BatchHeader header = SampleHeader();
  for (const TensorHeader& tensor : header.tensors()) {
    TensorSpec* spec = tensors.Add();
    spec->set_name(tensor.name());
    spec->set_dtype(tensor.dtype());
    *spec->mutable_sample_shape() = tensor.sample_shape();
  }
  return tensors;
}

std::vector<uint8_t> SamplePayload() {
  std::vector<uint8_t> payload(kPayload, 0);
  for (uint64_t i = 0; i < kRows * 12; ++i) payload[kImage + i] = i * 7;
  Put(payload, kLabel, {3, 9, -100});
  Put(payload, kOffsets, {0, 4, 5, 5});
  std::memcpy(payload.data() + kValues, "wordx", 5);
  Put(payload, kIndex, {71, 5, -1});
  payload[kValid] = payload[kValid + 1] = 1;
  return payload;
}

}  // namespace millrace::testing
