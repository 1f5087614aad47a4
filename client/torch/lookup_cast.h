// LookupCast computes a scaling TensorCast on an NVIDIA GPU in one pass, with
// the table kernel (lookup_kernel.h). Make() lets the kernel convert a small
// example and compares the result with the host's, so a LookupCast works on the
// GPU at hand.
//
// Used on one thread. Exceptions of libtorch pass through.
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

namespace millrace::device {

class LookupCast {
 public:
  // `stream` is the current stream, of `device`. Waits for it. NotFound,
  // Internal: the kernel does not run on this GPU, or gives wrong results.
  static absl::StatusOr<LookupCast> Make(const TensorCast& cast,
                                         c10::Device device,
                                         const c10::Stream& stream);

  // Queues the cast. False: the kernel cannot compute it, and nothing was
  // queued.
  bool Try(const c10::Stream& stream, const TensorCast& cast,
           const uint8_t* source, uint8_t* target, uint64_t elements) const;

 private:
  LookupCast(const LookupKernel& kernel, at::Tensor tables)
      : kernel_(kernel), tables_(std::move(tables)) {}

  LookupKernel kernel_;
  at::Tensor tables_;  // bytes on the device
};

}  // namespace millrace::device

#endif  // MILLRACE_CLIENT_TORCH_LOOKUP_CAST_H_
