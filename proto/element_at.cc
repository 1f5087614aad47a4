#include "proto/element_at.h"

#include <cstring>

#include "proto/half_float.h"

namespace millrace {
namespace {

template <typename T>
T Load(const uint8_t* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

}  // namespace

double ElementAt(const uint8_t* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DTYPE_BOOL:
    case DTYPE_UINT8:
      return data[index];
    case DTYPE_INT8:
      return Load<int8_t>(data, index);
    case DTYPE_UINT16:
      return Load<uint16_t>(data, index);
    case DTYPE_INT16:
      return Load<int16_t>(data, index);
    case DTYPE_INT32:
      return Load<int32_t>(data, index);
    case DTYPE_INT64:
      return static_cast<double>(Load<int64_t>(data, index));
    case DTYPE_FLOAT16:
      return HalfToFloat(Load<uint16_t>(data, index));
    case DTYPE_BFLOAT16:
      return Bfloat16ToFloat(Load<uint16_t>(data, index));
    case DTYPE_FLOAT32:
      return Load<float>(data, index);
    case DTYPE_FLOAT64:
      return Load<double>(data, index);
    default:
      return 0;
  }
}

}  // namespace millrace
