// Tensors of libtorch over the C interface (millrace_torch.hpp) are those of
// DataLoader, bit for bit, and view the memory of the batch.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/c/millrace_torch.hpp"
#include "client/loader.h"
#include "tests/testing/server_process.h"
#include "tests/testing/service.h"

namespace millrace::c {
namespace {

constexpr int kSamples = 600;
constexpr uint64_t kBatch = 50;

class TorchTest : public testing::ServiceTest {
 protected:
  static void SetUpTestSuite() { millrace_set_log_level("error", nullptr); }

  static BatchLoaderOptions Digits(const std::string& endpoint) {
    BatchLoaderOptions options;
    options.Set("endpoint", endpoint).Set("dataset", "digits");
    options.Set("preset", "mnist").Set("batch_size", kBatch).Set("seed", 3);
    return options;
  }
};

TEST_F(TorchTest, TensorsAreThoseOfTheDataLoader) {
  const auto server = Serve({ServiceTest::Digits(kSamples)});
  DataLoader::Options options;
  options.endpoint = server->address();
  options.dataset = "digits";
  options.preset = "mnist";
  options.batch_size = kBatch;
  options.seed = 3;
  auto expected = DataLoader::Open(options);
  ASSERT_TRUE(expected.ok()) << expected.status();
  BatchLoader loader(Digits(server->address()));
  uint64_t batches = 0;
  while (const std::optional<LoadedBatch> batch = loader.Next()) {
    auto wanted = (*expected)->Next();
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    for (const std::string name : {"image", "label", "valid", "sample_index"}) {
      const at::Tensor tensor = ToTorch(batch->tensor(name));
      EXPECT_EQ(tensor.scalar_type(), wanted->tensor(name).scalar_type());
      EXPECT_EQ(tensor.strides(), wanted->tensor(name).strides()) << name;
      EXPECT_TRUE(torch::equal(tensor, wanted->tensor(name))) << name;
    }
    EXPECT_EQ(ToTorch(batch->tensor("image")).sizes(),
              (std::vector<int64_t>{kBatch, 1, 28, 28}));
    ++batches;
  }
  EXPECT_EQ(batches, kSamples / kBatch);
}

TEST_F(TorchTest, WhatIsNotComputedIsNotCopied) {
  const auto server = Serve({ServiceTest::Digits(kSamples)});
  BatchLoader loader(Digits(server->address()));
  const LoadedBatch batch = loader.Next().value();
  EXPECT_EQ(ToTorch(batch.tensor("valid")).data_ptr(),
            batch.tensor("valid").data());
  const at::Tensor stored = ToTorchAsStored(batch.tensor("image"));
  EXPECT_EQ(stored.data_ptr(), batch.tensor("image").data());
  EXPECT_EQ(stored.scalar_type(), at::kByte);
  EXPECT_EQ(stored.sizes(), (std::vector<int64_t>{kBatch, 28, 28, 1}));
  EXPECT_TRUE(stored.is_contiguous());
}

TEST_F(TorchTest, ATensorKeepsTheMemoryOfItsBatchAndNothingElse) {
  auto server = Serve({ServiceTest::Digits(kSamples)});
  BatchLoaderOptions options = Digits(server->address());
  options.Set("window", 2);
  std::optional<BatchLoader> loader(options);
  // Views of views, without a handle of the program.
  at::Tensor first = ToTorch(loader->Next()->tensor("valid"))[0];
  at::Tensor second =
      ToTorchAsStored(loader->Next()->tensor("image")).flatten(1);
  std::optional<LoadedBatch> batch;
  // All slots are held.
  EXPECT_FALSE(loader->NextWithin(std::chrono::milliseconds(300), &batch));
  first.reset();
  at::Tensor third = ToTorchAsStored(loader->Next()->tensor("image"));
  const at::Tensor copy = third.clone();
  loader.reset();
  server.reset();
  EXPECT_TRUE(torch::equal(third, copy));
  EXPECT_GT(second.sum().item<int64_t>(), 0);
}

TEST_F(TorchTest, EveryElementTypeHasATypeOfLibtorch) {
  const std::map<std::string, at::ScalarType> types = {
      {"UINT8", at::kByte},       {"BOOL", at::kBool},
      {"INT8", at::kChar},        {"INT16", at::kShort},
      {"UINT16", at::kUInt16},    {"INT32", at::kInt},
      {"INT64", at::kLong},       {"FLOAT16", at::kHalf},
      {"FLOAT32", at::kFloat},    {"FLOAT64", at::kDouble},
      {"BFLOAT16", at::kBFloat16}};
  std::string pipeline = "sources { synthetic { samples: 40 seed: 1 ";
  for (const auto& [name, type] : types) {
    pipeline += "fields { name: \"" + name + "\" dtype: DTYPE_" + name +
                " shape: [7, 5] } ";
  }
  const auto server = Serve({"--synthetic_only"});
  BatchLoaderOptions options;
  options.Set("endpoint", server->address()).Set("pipeline", pipeline + "} }");
  options.Set("batch_size", 10);
  BatchLoader loader(options);
  const LoadedBatch batch = loader.Next().value();
  for (const auto& [name, type] : types) {
    const LoadedTensor tensor = batch.tensor(name);
    const at::Tensor stored = ToTorchAsStored(tensor);
    EXPECT_EQ(stored.scalar_type(), type) << name;
    EXPECT_EQ(stored.sizes(), (std::vector<int64_t>{10, 7, 5})) << name;
    EXPECT_EQ(stored.nbytes(), tensor.bytes()) << name;
  }
  EXPECT_THROW(TorchTypeOf(MILLRACE_DTYPE_NONE), LoadError);
}

}  // namespace
}  // namespace millrace::c
