// LookupKernel computes the scaling transforms of bytes on an NVIDIA GPU in one
// pass: it reads a byte, looks the result up in the table of its channel, and
// writes it. The tables are those of TensorCast, so the results equal the
// host's bit for bit. libtorch's own operations need three passes.
//
// The kernel is PTX text (its source is lookup_kernel.cl) that the driver
// compiles for the GPU at hand. It is launched through the driver's interface,
// so no CUDA header is needed.
//
// What it is not: it does not check its results. The caller compares a small
// example with the host's result first (LookupCast).
//
// Immutable; thread-safe. Load() and Launch() require that the device's context
// is current on the thread. Never unloaded: that would wait for an idle device.
//
//   MR_ASSIGN_OR_RETURN(const LookupKernel kernel, LookupKernel::Load(driver));
//   kernel.Launch(stream, {.source = pixels, .target = out, ...});

#ifndef MILLRACE_CLIENT_TORCH_LOOKUP_KERNEL_H_
#define MILLRACE_CLIENT_TORCH_LOOKUP_KERNEL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace::device {

// The functions of libcuda.so.1 that the kernel needs, as its documentation
// declares them: CUresult is an int, 0 for success; module, function and stream
// are pointers.
struct CudaDriver {
  int (*cuModuleLoadData)(void** module, const void* image) = nullptr;
  int (*cuModuleGetFunction)(void** function, void* module,
                             const char* name) = nullptr;
  int (*cuLaunchKernel)(void* function, unsigned grid_x, unsigned grid_y,
                        unsigned grid_z, unsigned block_x, unsigned block_y,
                        unsigned block_z, unsigned shared_bytes, void* stream,
                        void** parameters, void** extra) = nullptr;

  // NotFound: this machine has no NVIDIA driver, or one without these
  // functions.
  static absl::StatusOr<CudaDriver> Find();
};

class LookupKernel {
 public:
  struct Work {
    const uint8_t* source = nullptr;  // addresses on the device
    uint8_t* target = nullptr;
    const uint8_t* tables = nullptr;  // [channels][256] results
    uint64_t elements = 0;
    uint64_t channels = 1;
    // Elements of one channel in a row; the channels take turns.
    uint64_t run = 1;
    uint64_t result_bytes = 4;  // 2, 4 or 8
  };

  // Internal: the driver reports an error.
  static absl::StatusOr<LookupKernel> Load(const CudaDriver& driver);

  // Whether the kernel can compute it: sizes within 32 bits, and addresses that
  // are aligned for four results at a time.
  static bool Fits(const Work& work);

  // Queues the work. Requires Fits(work).
  absl::Status Launch(void* stream, const Work& work) const;

  static absl::string_view Ptx();

 private:
  explicit LookupKernel(const CudaDriver& driver) : driver_(driver) {}

  CudaDriver driver_;
  void* by_2_ = nullptr;  // functions by the bytes of a result
  void* by_4_ = nullptr;
  void* by_8_ = nullptr;
};

}  // namespace millrace::device

#endif  // MILLRACE_CLIENT_TORCH_LOOKUP_KERNEL_H_
