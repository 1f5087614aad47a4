#include "client/torch/torch_types.h"

#include "common/logging.h"

namespace millrace::device {

at::ScalarType TorchType(DType dtype) {
  switch (dtype) {
    case DTYPE_UINT8:
      return at::kByte;
    case DTYPE_BOOL:
      return at::kBool;
    case DTYPE_INT8:
      return at::kChar;
    case DTYPE_INT16:
      return at::kShort;
    case DTYPE_UINT16:
      return at::kUInt16;
    case DTYPE_INT32:
      return at::kInt;
    case DTYPE_INT64:
      return at::kLong;
    case DTYPE_FLOAT32:
      return at::kFloat;
    case DTYPE_FLOAT64:
      return at::kDouble;
    case DTYPE_FLOAT16:
      return at::kHalf;
    case DTYPE_BFLOAT16:
      return at::kBFloat16;
    default:
      MR_CHECK(false) << "a tensor of an unknown type";
      return at::kByte;
  }
}

}  // namespace millrace::device
