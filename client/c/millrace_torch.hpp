// Tensors of libtorch from the batches of millrace.hpp, with the libtorch of
// the program, of either C++ ABI: nothing of libtorch crosses the border of
// libmillrace.so. docs/package.md names the releases that were tried.
//
// Header-only. Functions without state; safe from any thread. A tensor that
// views a batch keeps its memory, also after the loader is gone; the loader
// reuses the memory when the last tensor and the last handle are gone. Tensors
// are in host memory: .to(device) copies them.
//
// Errors: LoadError, and c10::Error of libtorch.
//
//   at::Tensor images = millrace::ToTorch(batch->tensor("image"));

#ifndef MILLRACE_C_MILLRACE_TORCH_HPP_
#define MILLRACE_C_MILLRACE_TORCH_HPP_

#include <ATen/ATen.h>
#include <torch/version.h>

#include <cstdint>
#include <string>
#include <vector>

#include "millrace.hpp"

namespace millrace {

// Of MILLRACE_DTYPE_.... UNIMPLEMENTED: this libtorch has no such type.
inline at::ScalarType TorchTypeOf(int32_t dtype) {
  switch (dtype) {
    case MILLRACE_DTYPE_UINT8:
      return at::kByte;
    case MILLRACE_DTYPE_BOOL:
      return at::kBool;
    case MILLRACE_DTYPE_INT8:
      return at::kChar;
    case MILLRACE_DTYPE_INT16:
      return at::kShort;
#if TORCH_VERSION_MAJOR > 2 || \
    (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 3)
    case MILLRACE_DTYPE_UINT16:
      return at::kUInt16;
#endif
    case MILLRACE_DTYPE_INT32:
      return at::kInt;
    case MILLRACE_DTYPE_INT64:
      return at::kLong;
    case MILLRACE_DTYPE_FLOAT16:
      return at::kHalf;
    case MILLRACE_DTYPE_BFLOAT16:
      return at::kBFloat16;
    case MILLRACE_DTYPE_FLOAT32:
      return at::kFloat;
    case MILLRACE_DTYPE_FLOAT64:
      return at::kDouble;
    default:
      throw LoadError(MILLRACE_STATUS_UNIMPLEMENTED,
                      std::string("libtorch ") + TORCH_VERSION +
                          " has no type " + millrace_dtype_name(dtype));
  }
}

// The tensor as it came over the network, without a copy. With the option
// read_only, the program must not write to it: libtorch has no mark for that.
inline at::Tensor ToTorchAsStored(const LoadedTensor& tensor) {
  const at::ScalarType type = TorchTypeOf(tensor.info().dtype);
  const auto element_bytes = static_cast<int64_t>(at::elementSize(type));
  std::vector<int64_t> strides = tensor.strides();
  for (int64_t& stride : strides) stride /= element_bytes;
  return at::from_blob(
      tensor.data(), tensor.shape(), strides,
      // Owns the handle: it dies with the last reference to the memory.
      [tensor](void*) {}, at::TensorOptions(type));
}

// The tensor for training: what the pipeline leaves to the client is computed
// (a cast, or (x * scale - mean) / stddev), into new memory, with the same bits
// as in the other clients; a tensor without such a rest is not copied. Images
// [rows, H, W, C] that the plan shows with channels first are [rows, C, H, W],
// by a permutation without a copy: their memory is torch's channels_last.
//   DATA_LOSS  a number does not fit into the smaller type
inline at::Tensor ToTorch(const LoadedTensor& tensor) {
  const millrace_tensor& info = tensor.info();
  at::Tensor result;
  if (info.cast_dtype == MILLRACE_DTYPE_NONE) {
    result = ToTorchAsStored(tensor);
  } else {
    result = at::empty(tensor.shape(), TorchTypeOf(info.cast_dtype));
    tensor.Cast(result.data_ptr(), info.cast_bytes);
  }
  return info.channels_first_view != 0 ? result.permute({0, 3, 1, 2}) : result;
}

}  // namespace millrace

#endif  // MILLRACE_C_MILLRACE_TORCH_HPP_
