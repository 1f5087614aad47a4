#include "tests/gpu/gpu_test.h"

#include <ATen/Functions.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/cuda.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"

namespace millrace::testing {
namespace {

c10::impl::VirtualGuardImpl Cuda() {
  return c10::impl::VirtualGuardImpl(torch::kCUDA);
}

}  // namespace

void GpuTest::SetUp() {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU on this machine";
}

DataLoader::Options GpuTest::On(torch::Device device,
                                const std::string& endpoint,
                                const PipelineSpec& spec) {
  DataLoader::Options options;
  options.endpoint = endpoint;
  options.spec = spec;
  options.device = device;
  return options;
}

std::unique_ptr<DataLoader> GpuTest::OpenLoader(
    const DataLoader::Options& options) {
  return DataLoader::Open(options).value();
}

std::vector<std::vector<torch::Tensor>> GpuTest::Receive(DataLoader& loader) {
  std::vector<std::vector<torch::Tensor>> batches;
  while (true) {
    absl::StatusOr<Batch> batch = loader.Next();
    if (absl::IsOutOfRange(batch.status())) return batches;
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok()) return batches;
    std::vector<torch::Tensor>& copies = batches.emplace_back();
    for (const NamedTensor& named : batch->tensors) {
      copies.push_back(named.tensor.to(torch::kCPU, /*non_blocking=*/false,
                                       /*copy=*/true));
    }
  }
}

void GpuTest::ExpectEqual(
    const std::vector<std::vector<torch::Tensor>>& made,
    const std::vector<std::vector<torch::Tensor>>& right) {
  ASSERT_EQ(made.size(), right.size());
  ASSERT_FALSE(right.empty());
  for (size_t i = 0; i < right.size(); ++i) {
    ASSERT_EQ(made[i].size(), right[i].size());
    for (size_t j = 0; j < right[i].size(); ++j) {
      ASSERT_EQ(made[i][j].scalar_type(), right[i][j].scalar_type());
      ASSERT_TRUE(torch::equal(made[i][j], right[i][j]))
          << "batch " << i << ", tensor " << j;
    }
  }
}

c10::Stream GpuTest::AnotherStream() {
  return Cuda().getStreamFromGlobalPool(Cuda().getDevice());
}

void GpuTest::WaitOn(const c10::Stream& stream, const c10::Stream& other) {
  c10::Event event(torch::kCUDA);
  event.record(other);
  event.block(stream);
}

c10::Stream GpuTest::CurrentStream() {
  return Cuda().getStream(Cuda().getDevice());
}

void GpuTest::QueueSlowWork() {
  // About 3 ms of an H100 in float32.
  static const torch::Tensor& matrix = *new torch::Tensor(
      at::ones({4096, 4096}, at::TensorOptions(torch::kCUDA)));
  at::Tensor product = matrix;
  product = at::matmul(product, matrix);
}

}  // namespace millrace::testing
