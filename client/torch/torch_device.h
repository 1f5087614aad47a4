// OpenTorchDevice() makes a Device of an accelerator of libtorch: memory of the
// caching allocator, a copy stream from the pool, and events. It uses the
// device-generic interface of c10, so one program serves machines with and
// without CUDA, and no CUDA header is needed.
//
// Thread-safe functions.
//
//   MR_ASSIGN_OR_RETURN(auto device, OpenTorchDevice(torch::kCUDA));

#ifndef MILLRACE_CLIENT_TORCH_TORCH_DEVICE_H_
#define MILLRACE_CLIENT_TORCH_TORCH_DEVICE_H_

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "client/prefetch/slot_allocator.h"
#include "client/torch/device.h"

namespace millrace::device {

// torch::kCPU gives the host device. FailedPrecondition: this machine has no
// such device, or its library was not loaded (client/torch/cuda_runtime.h).
absl::StatusOr<std::shared_ptr<Device>> OpenTorchDevice(c10::Device device);

// `device` with an index: of a device without one, the index of this thread's
// current device of that kind. Memory and tensors are distinguished by index.
c10::Device WithIndex(c10::Device device);

// The name of `stream` for a Device.
DeviceStream NameOf(const c10::Stream& stream);

// Page-locked memory that the device reads directly; its size is counted in
// `pinned_bytes`. For the CPU: plain memory, not counted.
std::shared_ptr<prefetch::SlotAllocator> NewSlotAllocatorFor(
    c10::Device device, std::shared_ptr<std::atomic<uint64_t>> pinned_bytes);

}  // namespace millrace::device

#endif  // MILLRACE_CLIENT_TORCH_TORCH_DEVICE_H_
