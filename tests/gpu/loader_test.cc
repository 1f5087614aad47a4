// DataLoader on a real GPU: bytes, lifetimes over streams, memory, errors. What
// the stand-ins of tests/client/torch show of the rules holds on the device.

#include "client/loader.h"

#include <ATen/Functions.h>
#include <c10/core/StreamGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/gpu/gpu_test.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Images large enough that a copy takes a while: 12 MiB a batch.
PipelineSpec LargeSpec(int64_t batches, DType dtype = DTYPE_UNSPECIFIED) {
  PipelineSpec spec;
  Synthetic& synthetic = *spec.add_sources()->mutable_synthetic();
  synthetic.set_samples(64 * batches);
  SyntheticField& field = *synthetic.add_fields();
  field.set_name("pixels");
  field.set_dtype(DTYPE_UINT8);
  for (const int64_t side : {256, 256, 3}) field.add_shape(side);
  if (dtype != DTYPE_UNSPECIFIED) {
    ToDtype& to = *spec.add_transforms()->mutable_to_dtype();
    to.add_fields("pixels");
    to.set_dtype(dtype);
    to.set_scale(true);
  }
  spec.set_batch_size(64);
  return spec;
}

class GpuLoaderTest : public GpuTest {
 protected:
  // What `use` gives of each batch of `spec` on the GPU, and of the CPU's
  // batches. `use` may queue work and return before it is done.
  template <typename Use>
  int Differences(const PipelineSpec& spec, Use&& use) {
    const auto server = Serve({"--synthetic_only"});
    std::vector<torch::Tensor> sums;
    {
      DataLoader::Options options = On(torch::kCUDA, server->address(), spec);
      options.device_prefetch = 1;  // slots are soon used again
      const auto loader = OpenLoader(options);
      while (true) {
        absl::StatusOr<Batch> batch = loader->Next();
        if (absl::IsOutOfRange(batch.status())) break;
        EXPECT_TRUE(batch.ok()) << batch.status();
        if (!batch.ok()) break;
        sums.push_back(use(std::move(batch)));
      }
      torch::cuda::synchronize();
    }
    const auto right =
        Receive(*OpenLoader(On(torch::kCPU, server->address(), spec)));
    EXPECT_EQ(sums.size(), right.size());
    int differences = 0;
    for (size_t i = 0; i < sums.size() && i < right.size(); ++i) {
      differences += !torch::equal(sums[i].cpu(), right[i][0]);
    }
    return differences;
  }
};

TEST_F(GpuLoaderTest, GivesTheSameBytesAsTheCpu) {
  const auto server = Serve({Digits(1000)});
  for (const bool transform : {true, false}) {
    for (const uint64_t batch_size : {1, 20, 33}) {
      DataLoader::Options gpu =
          On(torch::kCUDA, server->address(), DigitsSpec(batch_size));
      gpu.apply_device_transform = transform;
      DataLoader::Options cpu = gpu;
      cpu.device = torch::kCPU;
      const auto loader = OpenLoader(gpu);
      const auto made = Receive(*loader);
      EXPECT_GT(loader->stats().pinned_bytes, 0u);
      EXPECT_GT(loader->stats().device_copy_seconds, 0);
      ExpectEqual(made, Receive(*OpenLoader(cpu)));
    }
  }
}

TEST_F(GpuLoaderTest, ConvertsToEachTypeAsTheCpuDoes) {
  const auto server = Serve({"--synthetic_only"});
  for (const DType dtype :
       {DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_FLOAT32, DTYPE_FLOAT64}) {
    const PipelineSpec spec = LargeSpec(4, dtype);
    ExpectEqual(Receive(*OpenLoader(On(torch::kCUDA, server->address(), spec))),
                Receive(*OpenLoader(On(torch::kCPU, server->address(), spec))));
  }
}

// Kernels queued on the stream of Next() read the batch after the caller has
// destroyed it.
TEST_F(GpuLoaderTest, ABatchLivesUntilQueuedKernelsHaveReadIt) {
  EXPECT_EQ(Differences(LargeSpec(60, DTYPE_FLOAT32),
                        [](absl::StatusOr<Batch> batch) {
                          QueueSlowWork();
                          return batch->tensors[0].tensor.clone();
                        }),
            0);
}

// Next() and the kernels under a guard, the batch destroyed after it.
TEST_F(GpuLoaderTest, ABatchMayDieUnderAnotherStreamThanItWasUsedOn) {
  std::optional<absl::StatusOr<Batch>> outside;
  const auto server = Serve({"--synthetic_only"});
  const PipelineSpec spec = LargeSpec(60, DTYPE_FLOAT32);
  DataLoader::Options options = On(torch::kCUDA, server->address(), spec);
  options.device_prefetch = 1;
  const auto loader = OpenLoader(options);
  const c10::Stream side = AnotherStream();
  std::vector<torch::Tensor> copies;
  while (true) {
    {
      c10::StreamGuard guard(side);
      outside = loader->Next();
      if (!outside->ok()) break;
      QueueSlowWork();
      copies.push_back((*outside)->tensors[0].tensor.clone());
    }
    outside.reset();  // the default stream is current, and idle
  }
  EXPECT_TRUE(absl::IsOutOfRange(outside->status())) << outside->status();
  torch::cuda::synchronize();
  const auto right =
      Receive(*OpenLoader(On(torch::kCPU, server->address(), spec)));
  ASSERT_EQ(copies.size(), right.size());
  for (size_t i = 0; i < right.size(); ++i) {
    ASSERT_TRUE(torch::equal(copies[i].cpu(), right[i][0])) << "batch " << i;
  }
}

// A stream that the loader is told of is waited for. The second run is the
// control: untold, the slot is overwritten under the slow kernels, so the first
// run would notice a mistake.
TEST_F(GpuLoaderTest, RecordStreamKeepsABatchForAnotherStream) {
  const c10::Stream side = AnotherStream();
  for (const bool told : {true, false}) {
    const int differences = Differences(
        LargeSpec(60, DTYPE_FLOAT32), [&](absl::StatusOr<Batch> batch) {
          WaitOn(side, CurrentStream());
          if (told) batch->RecordStream(side);
          c10::StreamGuard guard(side);
          for (int i = 0; i < 5; ++i) QueueSlowWork();
          torch::Tensor copy = batch->tensors[0].tensor.clone();
          c10::StreamGuard back(
              c10::Stream(c10::Stream::DEFAULT, side.device()));
          *batch = Batch();  // destroyed under the default stream
          return copy;
        });
    if (told) {
      EXPECT_EQ(differences, 0);
    } else {
      EXPECT_GT(differences, 0) << "the test above does not see a mistake";
    }
  }
}

TEST_F(GpuLoaderTest, BatchesOutliveTheLoader) {
  const auto server = Serve({Digits(1000)});
  const auto right =
      Receive(*OpenLoader(On(torch::kCPU, server->address(), DigitsSpec(20))));
  auto loader = OpenLoader(On(torch::kCUDA, server->address(), DigitsSpec(20)));
  std::vector<Batch> held;
  for (int i = 0; i < 2; ++i) held.push_back(loader->Next().value());
  loader->Close();
  loader.reset();
  for (size_t i = 0; i < held.size(); ++i) {
    for (size_t j = 0; j < right[i].size(); ++j) {
      EXPECT_TRUE(torch::equal(held[i].tensors[j].tensor.cpu(), right[i][j]));
    }
  }
}

TEST_F(GpuLoaderTest, SaysThatTheCallerHoldsAllSlots) {
  const auto server = Serve({"--synthetic_only"});
  DataLoader::Options options =
      On(torch::kCUDA, server->address(), LargeSpec(20, DTYPE_FLOAT32));
  options.device_prefetch = 1;
  options.next_timeout = absl::Seconds(1);
  const auto loader = OpenLoader(options);
  std::vector<Batch> held;
  absl::Status status;
  while (status.ok() && held.size() < 10) {
    absl::StatusOr<Batch> batch = loader->Next();
    status = batch.status();
    if (batch.ok()) held.push_back(*std::move(batch));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("slots are held"));
  EXPECT_GE(held.size(), 2u);
  held.clear();
  EXPECT_TRUE(loader->Next().ok());
}

TEST_F(GpuLoaderTest, ContinuesAtAPosition) {
  const auto server = Serve({Digits(1000)});
  const auto right =
      Receive(*OpenLoader(On(torch::kCPU, server->address(), DigitsSpec(20))));
  const auto loader =
      OpenLoader(On(torch::kCUDA, server->address(), DigitsSpec(20)));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(loader->Next().ok());
  for (const uint64_t step : {40, 7, 49}) {
    ASSERT_TRUE(loader->Seek({.epoch = 0, .step = step}).ok());
    const Batch batch = loader->Next().value();
    EXPECT_TRUE(torch::equal(batch.tensors[0].tensor.cpu(), right[step][0]));
  }
}

TEST_F(GpuLoaderTest, RepeatsBatchesFromTheDevice) {
  const auto server = Serve({Digits(1000)});
  const auto right =
      Receive(*OpenLoader(On(torch::kCPU, server->address(), DigitsSpec(20))));
  DataLoader::Options options =
      On(torch::kCUDA, server->address(), DigitsSpec(20));
  options.repeat_batches = 3;
  const auto loader = OpenLoader(options);
  for (int i = 0; i < 9; ++i) {
    const Batch batch = loader->Next().value();
    ASSERT_TRUE(batch.tensors[0].tensor.is_cuda());
    EXPECT_TRUE(torch::equal(batch.tensors[0].tensor.cpu(), right[i % 3][0]));
  }
}

TEST_F(GpuLoaderTest, SaysThatTheDeviceHasNoMemoryForTheSlots) {
  const auto server = Serve({"--synthetic_only"});
  std::vector<torch::Tensor> taken;
  // All but less than 64 MiB.
  for (int64_t bytes = int64_t{1} << 40; bytes >= int64_t{1} << 26;) {
    try {
      taken.push_back(at::empty(
          {bytes}, at::TensorOptions(at::kByte).device(torch::kCUDA)));
    } catch (const std::exception&) {
      bytes /= 2;
    }
  }
  const absl::Status status =
      DataLoader::Open(
          On(torch::kCUDA, server->address(), LargeSpec(4, DTYPE_FLOAT32)))
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("batch slots"), HasSubstr("smaller batch")));
}

}  // namespace
}  // namespace millrace::testing
