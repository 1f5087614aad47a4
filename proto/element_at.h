// ElementAt reads an element of a tensor, of any type, as a number.
//
// Pure function.
//
//   const double value = ElementAt(data, DTYPE_FLOAT16, i);

#ifndef MILLRACE_PROTO_ELEMENT_AT_H_
#define MILLRACE_PROTO_ELEMENT_AT_H_

#include <cstdint>

#include "proto/names.h"
#include "proto/types.pb.h"

namespace millrace {

// Element `index` of `data`, which may have any alignment. An int64 is rounded
// to a double. 0 for an unknown type.
double ElementAt(const uint8_t* data, DType dtype, int64_t index);

}  // namespace millrace

#endif  // MILLRACE_PROTO_ELEMENT_AT_H_
