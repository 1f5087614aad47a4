#include "server/plan/value_range.h"

#include <limits>

namespace millrace::plan {
namespace {

// The label that loss functions ignore by default.
constexpr int64_t kNoClass = -100;

template <typename T>
ValueRange Of() {
  return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

}  // namespace

std::optional<ValueRange> ValuesOf(DType dtype) {
  switch (dtype) {
    case DTYPE_BOOL:
      return ValueRange{0, 1};
    case DTYPE_UINT8:
      return Of<uint8_t>();
    case DTYPE_INT8:
      return Of<int8_t>();
    case DTYPE_UINT16:
      return Of<uint16_t>();
    case DTYPE_INT16:
      return Of<int16_t>();
    case DTYPE_INT32:
      return Of<int32_t>();
    case DTYPE_INT64:
      return Of<int64_t>();
    default:
      return std::nullopt;
  }
}

ValueRange ValuesOfClasses(int64_t num_classes) {
  return {kNoClass, num_classes - 1};
}

bool Holds(DType dtype, const ValueRange& range) {
  std::optional<ValueRange> held = ValuesOf(dtype);
  // All whole numbers up to 2 to the power of the significand's bits.
  const auto up_to = [](int bits) {
    return ValueRange{-(int64_t{1} << bits), int64_t{1} << bits};
  };
  if (dtype == DTYPE_BFLOAT16) held = up_to(8);
  if (dtype == DTYPE_FLOAT16) held = up_to(11);
  if (dtype == DTYPE_FLOAT32) held = up_to(24);
  if (dtype == DTYPE_FLOAT64) held = up_to(53);
  return held && held->min <= range.min && range.max <= held->max;
}

bool IsFloatingPoint(DType dtype) {
  return dtype == DTYPE_FLOAT16 || dtype == DTYPE_BFLOAT16 ||
         dtype == DTYPE_FLOAT32 || dtype == DTYPE_FLOAT64;
}

}  // namespace millrace::plan
