// A model's weights go to Python and come from there.

#include "trainer/weights/model_weights.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/testing/subprocess.h"
#include "tests/trainer/weights/golden_weights.h"

namespace millrace::weights {
namespace {

using ::millrace::testing::GoldenTensor;
using ::millrace::testing::GoldenWeights;
using ::millrace::testing::WeightsPath;
using ::testing::AllOf;
using ::testing::HasSubstr;

// As make_golden.py's.
struct Small : torch::nn::Module {
  explicit Small(int64_t outputs = 2)
      : fc1(register_module("fc1", torch::nn::Linear(3, 4))),
        bn(register_module("bn", torch::nn::BatchNorm1d(4))),
        fc2(register_module("fc2", torch::nn::Linear(4, outputs))) {}
  torch::nn::Linear fc1;
  torch::nn::BatchNorm1d bn;
  torch::nn::Linear fc2;
};

void ExpectGolden(const Small& module, const std::string& file) {
  const std::vector<NamedWeight> weights = WeightsOf(module);
  const std::vector<GoldenTensor> golden = GoldenWeights(file);
  ASSERT_EQ(weights.size(), golden.size());
  for (size_t i = 0; i < golden.size(); ++i) {
    SCOPED_TRACE(golden[i].name);
    EXPECT_EQ(weights[i].name, golden[i].name) << "the order of state_dict()";
    EXPECT_EQ(weights[i].tensor.sizes(), golden[i].shape);
    const torch::Tensor flat =
        weights[i].tensor.detach().to(torch::kDouble).flatten();
    for (int64_t j = 0; j < flat.numel(); ++j) {
      EXPECT_EQ(flat[j].item<double>(),
                std::stod(golden[i].values[static_cast<size_t>(j)]));
    }
  }
}

TEST(ModelWeights, AreThoseOfPythonInItsOrder) {
  for (const char* file : {"module.pt", "module.safetensors", "training.pt"}) {
    Small module;
    const auto address = module.fc1->weight.data_ptr();
    const absl::Status loaded =
        LoadWeights(WeightsPath(file), {}, WeightsOf(module));
    ASSERT_TRUE(loaded.ok()) << loaded;
    ExpectGolden(module, file);
    EXPECT_EQ(module.fc1->weight.data_ptr(), address) << "copied in place";
    EXPECT_TRUE(module.fc1->weight.requires_grad());
  }
}

TEST(ModelWeights, ComeBackAsTheyWereSaved) {
  torch::manual_seed(7);
  Small module;
  module.bn->num_batches_tracked.fill_(int64_t{1} << 40);
  const std::string folder = testing::NewTempDir();
  for (const char* name : {"/w.pt", "/w.safetensors"}) {
    const absl::Status saved = SaveWeights(folder + name, WeightsOf(module));
    ASSERT_TRUE(saved.ok()) << saved;
    Small other;
    const absl::Status loaded =
        LoadWeights(folder + name, {}, WeightsOf(other));
    ASSERT_TRUE(loaded.ok()) << loaded;
    const auto a = WeightsOf(module), b = WeightsOf(other);
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_TRUE(torch::equal(a[i].tensor, b[i].tensor)) << a[i].name;
    }
  }
}

TEST(ModelWeights, AreConvertedFromOtherWidths) {
  const std::string path = testing::NewTempDir() + "/w.safetensors";
  const torch::Tensor numbers =
      torch::tensor({0.5, -1.25, 3.0}, torch::kDouble);
  for (const auto type : {torch::kDouble, torch::kHalf, torch::kBFloat16}) {
    ASSERT_TRUE(SaveWeights(path, {{"w", numbers.to(type)}}).ok());
    const torch::Tensor into = at::zeros(3);
    ASSERT_TRUE(LoadWeights(path, {}, {{"w", into}}).ok());
    EXPECT_TRUE(torch::equal(into, numbers.to(torch::kFloat)));
  }
  // Weights that lie channels-last are written as Python orders them.
  const torch::Tensor images = at::arange(24, torch::kFloat)
                                   .view({1, 2, 3, 4})
                                   .contiguous(at::MemoryFormat::ChannelsLast);
  ASSERT_TRUE(SaveWeights(path, {{"w", images}}).ok());
  const torch::Tensor back = at::zeros({1, 2, 3, 4});
  ASSERT_TRUE(LoadWeights(path, {}, {{"w", back}}).ok());
  EXPECT_TRUE(torch::equal(back, images));
}

TEST(ModelWeights, StayAsTheyAreWhenAFileDoesNotFit) {
  Small module(/*outputs=*/5);
  const torch::Tensor before = module.fc1->weight.clone();
  const std::string path = WeightsPath("module.pt");
  const absl::Status status = LoadWeights(path, {}, WeightsOf(module));
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(path),
                    HasSubstr("fc2.weight is [2, 4] in the "
                              "file and [5, 4] in the model"),
                    HasSubstr("--init_weights_without")));
  EXPECT_TRUE(torch::equal(module.fc1->weight, before));
  const torch::Tensor head = module.fc2->weight.clone();
  EXPECT_TRUE(LoadWeights(path, {"fc2"}, WeightsOf(module)).ok());
  EXPECT_FALSE(torch::equal(module.fc1->weight, before));
  EXPECT_TRUE(torch::equal(module.fc2->weight, head));
}

TEST(ModelWeights, KeepTheOldFileWhenAValueIsNoNumber) {
  Small module;
  const std::string path = testing::NewTempDir() + "/w.pt";
  ASSERT_TRUE(SaveWeights(path, WeightsOf(module)).ok());
  const std::string good = testing::ReadFile(path);
  {
    const torch::NoGradGuard no_grad;
    module.fc2->bias.fill_(std::numeric_limits<float>::infinity());
  }
  const absl::Status status = SaveWeights(path, WeightsOf(module));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("fc2.bias"));
  EXPECT_EQ(testing::ReadFile(path), good);
}

}  // namespace
}  // namespace millrace::weights
