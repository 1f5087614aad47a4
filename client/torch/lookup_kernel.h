// LookupKernel computes the scaling transforms of bytes on an NVIDIA GPU in one
// pass: a byte is read, its channel's table says the result, which is written.
// The tables are those of TensorCast, so the results are the host's, bit for
// bit. libtorch's own operations need three passes.
//
// The kernel is PTX text (lookup_kernel.cl has its source) that the driver
// compiles for the GPU at hand; it is launched by the driver's interface, so no
// CUDA header is needed. Who uses it compares what it makes of a small example
// with the host's result first, and does without it when anything is wrong.
//
// Load() and Launch() want the device's context to be the thread's current one.
// Immutable; thread-safe. Never unloaded: that would wait for an idle device.
//
//   MR_ASSIGN_OR_RETURN(const LookupKernel kernel, LookupKernel::Load(driver));
//   kernel.Launch(stream, {.source = pixels, .target = out, ...});

#ifndef MILLRACE_CLIENT_TORCH_LOOKUP_KERNEL_H_
#define MILLRACE_CLIENT_TORCH_LOOKUP_KERNEL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// What is needed of libcuda.so.1, as its documentation declares it: CUresult is
// an int, 0 for success; module, function and stream are pointers.
struct CudaDriver {
  int (*cuModuleLoadData)(void** module, const void* image) = nullptr;
  int (*cuModuleGetFunction)(void** function, void* module,
                             const char* name) = nullptr;
  int (*cuLaunchKernel)(void* function, unsigned grid_x, unsigned grid_y,
                        unsigned grid_z, unsigned block_x, unsigned block_y,
                        unsigned block_z, unsigned shared_bytes, void* stream,
                        void** parameters, void** extra) = nullptr;

  // NotFound: this machine has no NVIDIA driver, or one without these.
  static absl::StatusOr<CudaDriver> Find();
};

class LookupKernel {
 public:
  struct Work {
    const uint8_t* source = nullptr;  // addresses of the device
    uint8_t* target = nullptr;
    const uint8_t* tables = nullptr;  // [channels][256] results
    uint64_t elements = 0;
    uint64_t channels = 1;
    // Elements lie in runs of so many of one channel, the channels in turn.
    uint64_t run = 1;
    uint64_t result_bytes = 4;  // 2, 4 or 8
  };

  // The errors of the driver, as Internal.
  static absl::StatusOr<LookupKernel> Load(const CudaDriver& driver);

  // Whether the kernel can do it: sizes that 32 bits count, and addresses that
  // it can read and write four results at a time.
  static bool Fits(const Work& work);

  // Queues it. `work` fits.
  absl::Status Launch(void* stream, const Work& work) const;

  static absl::string_view Ptx();

 private:
  explicit LookupKernel(const CudaDriver& driver) : driver_(driver) {}

  CudaDriver driver_;
  void* by_2_ = nullptr;  // functions by the bytes of a result
  void* by_4_ = nullptr;
  void* by_8_ = nullptr;
};

}  // namespace millrace

#endif  // MILLRACE_CLIENT_TORCH_LOOKUP_KERNEL_H_
