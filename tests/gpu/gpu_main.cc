// main() of the tests that need a GPU.

#include <gtest/gtest.h>

#include <cstdio>

#include "absl/status/status.h"
#include "client/torch/cuda_runtime.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // First: libtorch remembers missing CUDA support at first use.
  const absl::Status cuda = millrace::device::LoadCudaRuntime();
  if (!cuda.ok()) {
    std::fprintf(stderr, "%s\n", cuda.ToString().c_str());
    // A machine with a GPU whose libraries do not load is a failure.
    if (!absl::IsNotFound(cuda)) return 1;
  }
  return RUN_ALL_TESTS();
}
