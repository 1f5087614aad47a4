// An accelerator as libtorch sees it: memory of its caching allocator, a copy
// stream out of its pool, its events. Written against c10's device-generic
// interface, so that one program serves machines with and without CUDA and
// nothing here needs CUDA's headers.

#ifndef MILLRACE_CLIENT_TORCH_TORCH_DEVICE_H_
#define MILLRACE_CLIENT_TORCH_TORCH_DEVICE_H_

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "client/prefetch/host_loader.h"
#include "client/torch/device.h"

namespace millrace {

// For torch::kCPU the host device. FailedPrecondition: there is no such device
// on this machine, or its library was not loaded (client/torch/cuda_runtime.h).
absl::StatusOr<std::shared_ptr<Device>> OpenTorchDevice(c10::Device device);

// `device` with the index of this thread's current device of its kind where it
// has none: memory and tensors are told apart by it.
c10::Device WithIndex(c10::Device device);

// What a Device calls it.
DeviceStream NameOf(const c10::Stream& stream);

// Page-locked memory that the device reads directly, counted in
// `pinned_bytes`; plain memory for the CPU, which is not counted.
std::shared_ptr<SlotAllocator> NewSlotAllocatorFor(
    c10::Device device, std::shared_ptr<std::atomic<uint64_t>> pinned_bytes);

}  // namespace millrace

#endif  // MILLRACE_CLIENT_TORCH_TORCH_DEVICE_H_
