// Sizes and names of the element types.

#ifndef MILLRACE_PROTO_DTYPE_H_
#define MILLRACE_PROTO_DTYPE_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "proto/names.h"
#include "proto/types.pb.h"

namespace millrace {

// Bytes of one element; 0 for an unknown type.
inline uint64_t ElementBytes(DType dtype) {
  switch (dtype) {
    case DTYPE_UINT8:
    case DTYPE_BOOL:
    case DTYPE_INT8:
      return 1;
    case DTYPE_FLOAT16:
    case DTYPE_BFLOAT16:
    case DTYPE_INT16:
    case DTYPE_UINT16:
      return 2;
    case DTYPE_INT32:
    case DTYPE_FLOAT32:
      return 4;
    case DTYPE_INT64:
    case DTYPE_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

// Whole numbers; bool is none.
inline bool IsInteger(DType dtype) {
  switch (dtype) {
    case DTYPE_UINT8:
    case DTYPE_INT8:
    case DTYPE_INT16:
    case DTYPE_UINT16:
    case DTYPE_INT32:
    case DTYPE_INT64:
      return true;
    default:
      return false;
  }
}

// "uint8", "float32", ...; "unknown" for an unknown type.
inline absl::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DTYPE_UINT8:
      return "uint8";
    case DTYPE_BOOL:
      return "bool";
    case DTYPE_INT32:
      return "int32";
    case DTYPE_INT64:
      return "int64";
    case DTYPE_FLOAT32:
      return "float32";
    case DTYPE_FLOAT64:
      return "float64";
    case DTYPE_FLOAT16:
      return "float16";
    case DTYPE_BFLOAT16:
      return "bfloat16";
    case DTYPE_INT8:
      return "int8";
    case DTYPE_INT16:
      return "int16";
    case DTYPE_UINT16:
      return "uint16";
    default:
      return "unknown";
  }
}

}  // namespace millrace

#endif  // MILLRACE_PROTO_DTYPE_H_
