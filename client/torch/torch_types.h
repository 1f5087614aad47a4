// TorchType() maps the element types of the wire to those of libtorch.
//
// Pure function, safe from any thread.
//
//   at::empty(sizes, TorchType(DTYPE_UINT8));

#ifndef MILLRACE_CLIENT_TORCH_TORCH_TYPES_H_
#define MILLRACE_CLIENT_TORCH_TORCH_TYPES_H_

#include <c10/core/ScalarType.h>

#include "proto/names.h"
#include "proto/types.pb.h"

namespace millrace::device {

// Ends the program for a type without a size (see ElementBytes()).
at::ScalarType TorchType(DType dtype);

}  // namespace millrace::device

#endif  // MILLRACE_CLIENT_TORCH_TORCH_TYPES_H_
