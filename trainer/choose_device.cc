#include "trainer/choose_device.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/cuda.h>

#include "common/status_macros.h"

namespace millrace::trainer {

absl::StatusOr<torch::Device> ChooseDevice(const std::string& name,
                                           const RankEnv& env) {
  if (name == "cpu") return torch::Device(torch::kCPU);
  const auto gpus = static_cast<uint32_t>(torch::cuda::device_count());
  if (gpus == 0) {
    if (name == "auto") return torch::Device(torch::kCPU);
    return absl::FailedPreconditionError(
        "--device=cuda, but this process sees no CUDA device; check the "
        "driver, CUDA_VISIBLE_DEVICES and MILLRACE_TORCH_LIB, or train without "
        "a GPU with --device=cpu");
  }
  MR_ASSIGN_OR_RETURN(const uint32_t gpu, GpuOf(env, gpus));
  const torch::Device device(torch::kCUDA, static_cast<c10::DeviceIndex>(gpu));
  // NCCL and tensors without an explicit device use the current device.
  c10::impl::VirtualGuardImpl(torch::kCUDA).setDevice(device);
  return device;
}

}  // namespace millrace::trainer
