// Makes CUDA usable by a program that is linked against libtorch's CPU part
// alone, so that one program serves both kinds of machine.

#ifndef MILLRACE_CLIENT_TORCH_CUDA_RUNTIME_H_
#define MILLRACE_CLIENT_TORCH_CUDA_RUNTIME_H_

#include <string>

#include "absl/status/status.h"

namespace millrace {

// Opens libtorch_cuda.so from the folder that the environment's
// MILLRACE_TORCH_LIB names (torch/lib of an installed torch wheel of the same
// version), else from that of libtorch_cpu.so. Call it first thing in main:
// libtorch remembers missing CUDA support at first use. NotFound: this machine
// has no NVIDIA driver, or this libtorch no CUDA part: carry on with the CPU.
// FailedPrecondition: both are there and the library does not load; the message
// says why.
absl::Status LoadCudaRuntime();

// The folder that libtorch_cpu.so was loaded from, links resolved; empty when
// it cannot be told.
std::string LibtorchFolder();

}  // namespace millrace

#endif  // MILLRACE_CLIENT_TORCH_CUDA_RUNTIME_H_
