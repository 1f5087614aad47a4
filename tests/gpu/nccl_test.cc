// libmillrace_nccl.so beside the real libtorch_cuda.so: it loads, connects a
// job of one rank, and sums on the GPU.

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "tests/gpu/gpu_test.h"
#include "tests/testing/subprocess.h"
#include "trainer/ddp/nccl_loader.h"

namespace millrace::testing {
namespace {

using NcclTest = GpuTest;

TEST_F(NcclTest, SumsOnTheGpu) {
  std::vector<std::string> paths = ddp::NcclPluginPaths();
  paths.push_back(ProgramPath("trainer/ddp/libmillrace_nccl.so"));
  const auto make = ddp::LoadNccl(paths);
  ASSERT_TRUE(make.ok()) << make.status();
  const auto backend =
      ddp::ConnectNccl(*make, {.store = c10::make_intrusive<c10d::HashStore>(),
                               .rank = 0,
                               .size = 1,
                               .device = 0,
                               .timeout_ms = 60000});
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->getSize(), 1);
  const at::Tensor right = at::arange(1 << 20, at::TensorOptions(at::kFloat));
  std::vector<at::Tensor> tensors = {right.to(torch::kCUDA)};
  (*backend)->allreduce(tensors)->wait();
  torch::cuda::synchronize();
  EXPECT_TRUE(torch::equal(tensors[0].cpu(), right));
}

}  // namespace
}  // namespace millrace::testing
