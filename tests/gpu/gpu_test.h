// GpuTest is the fixture of tests that need a GPU: data servers as processes
// (tests/testing/service.h) and loaders on the GPU and on the CPU to compare.
// On a machine without a GPU each test is skipped.
//
// The main() of these tests (gpu_main.cc) opens the CUDA part of libtorch, as
// millrace-train does.
//
//   TEST_F(GpuTest, GivesTheSameBytesAsTheCpu) { ... }

#ifndef MILLRACE_TESTS_GPU_GPU_TEST_H_
#define MILLRACE_TESTS_GPU_GPU_TEST_H_

#include <c10/core/Stream.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

#include "client/loader.h"
#include "proto/data_service.pb.h"
#include "tests/testing/service.h"

namespace millrace::testing {

class GpuTest : public ServiceTest {
 protected:
  void SetUp() override;

  // An epoch of `spec`.
  static DataLoader::Options On(torch::Device device,
                                const std::string& endpoint,
                                const PipelineSpec& spec);
  static std::unique_ptr<DataLoader> OpenLoader(
      const DataLoader::Options& options);

  // Copies on the host of all tensors of all batches that the loader still has;
  // waits for the device after each batch.
  static std::vector<std::vector<torch::Tensor>> Receive(DataLoader& loader);
  static void ExpectEqual(const std::vector<std::vector<torch::Tensor>>& made,
                          const std::vector<std::vector<torch::Tensor>>& right);

  // A stream of the GPU that no loader knows of.
  static c10::Stream AnotherStream();
  static void WaitOn(const c10::Stream& stream, const c10::Stream& other);
  static c10::Stream CurrentStream();
  // Keeps the current stream busy for some milliseconds.
  static void QueueSlowWork();
};

}  // namespace millrace::testing

#endif  // MILLRACE_TESTS_GPU_GPU_TEST_H_
