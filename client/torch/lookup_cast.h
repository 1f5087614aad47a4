// LookupCast is a scaling TensorCast on an NVIDIA GPU in one pass, by the
// table kernel (lookup_kernel.h). Make() has the kernel convert a small example
// and compares that with the host's result: what is given out works on the GPU
// at hand.
//
// One thread. libtorch's exceptions pass.
//
//   auto lookup = LookupCast::Make(cast, device, copy_stream);
//   if (!lookup.ok() || !lookup->Try(copy_stream, ...)) ... another way

#ifndef MILLRACE_CLIENT_TORCH_LOOKUP_CAST_H_
#define MILLRACE_CLIENT_TORCH_LOOKUP_CAST_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "client/torch/lookup_kernel.h"
#include "proto/tensor_cast.h"

namespace millrace {

class LookupCast {
 public:
  // `stream` is the current one, of the device. Waits for it. NotFound,
  // Internal: the GPU cannot do it, or does it wrongly.
  static absl::StatusOr<LookupCast> Make(const TensorCast& cast,
                                         c10::Device device,
                                         const c10::Stream& stream);

  // Queues the cast. False: it is none for the kernel, and nothing was done.
  bool Try(const c10::Stream& stream, const TensorCast& cast,
           const uint8_t* source, uint8_t* target, uint64_t elements) const;

 private:
  LookupCast(const LookupKernel& kernel, at::Tensor tables)
      : kernel_(kernel), tables_(std::move(tables)) {}

  LookupKernel kernel_;
  at::Tensor tables_;  // bytes on the device
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_TORCH_LOOKUP_CAST_H_
