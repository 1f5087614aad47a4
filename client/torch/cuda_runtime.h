// LoadCudaRuntime() makes CUDA usable in a program that is linked against the
// CPU part of libtorch only, so that one program serves machines with and
// without a GPU.
//
// Call it before any other thread uses libtorch.
//
//   const absl::Status cuda = millrace::LoadCudaRuntime();  // first in main
//   options.device = cuda.ok() ? torch::kCUDA : torch::kCPU;

#ifndef MILLRACE_CLIENT_TORCH_CUDA_RUNTIME_H_
#define MILLRACE_CLIENT_TORCH_CUDA_RUNTIME_H_

#include <string>

#include "absl/status/status.h"

namespace millrace::device {

// Opens libtorch_cuda.so from the folder in the environment variable
// MILLRACE_TORCH_LIB (torch/lib of an installed torch wheel of the same
// version), or else from the folder of libtorch_cpu.so. Call it first in main:
// libtorch remembers missing CUDA support at first use.
// - NotFound: this machine has no NVIDIA driver, or this libtorch has no CUDA
//   part. Continue with the CPU.
// - FailedPrecondition: both exist and the library does not load; says why.
absl::Status LoadCudaRuntime();

// The folder of libtorch_cpu.so, links resolved; empty: unknown.
std::string LibtorchFolder();

}  // namespace millrace::device

#endif  // MILLRACE_CLIENT_TORCH_CUDA_RUNTIME_H_
