#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>

#include "trainer/models/model.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<Classifier> Make(const std::string& name, ImageShape shape,
                                 int64_t classes) {
  auto model = MakeModel(name, shape, classes);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

std::string Refusal(const std::string& name, ImageShape shape,
                    int64_t classes) {
  auto model = MakeModel(name, shape, classes);
  EXPECT_TRUE(absl::IsInvalidArgument(model.status())) << model.status();
  return std::string(model.status().message());
}

// The counts that torchvision's documentation and the papers give.
TEST(Models, HaveAsManyParametersAsTheirDefinition) {
  EXPECT_EQ(CountParameters(*Make("resnet18", {3, 224, 224}, 1000)), 11689512);
  EXPECT_EQ(CountParameters(*Make("mlp", {1, 28, 28}, 10)),
            784 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10);
  EXPECT_EQ(CountParameters(*Make("cnn", {1, 28, 28}, 10)),
            (9 * 32 + 32) + (9 * 32 * 64 + 64) + (64 * 49 * 128 + 128) +
                (128 * 10 + 10));
}

TEST(Models, NameTheirParametersAsTorchvisionDoes) {
  const auto parameters =
      Make("resnet18", {3, 224, 224}, 10)->named_parameters();
  for (const char* name :
       {"conv1.weight", "bn1.bias", "layer1.0.conv1.weight",
        "layer2.0.downsample.0.weight", "layer2.0.downsample.1.weight",
        "layer4.1.bn2.weight", "fc.bias"}) {
    EXPECT_NE(parameters.find(name), nullptr) << name;
  }
  EXPECT_EQ(parameters.find("layer1.0.downsample.0.weight"), nullptr);
}

TEST(Models, GiveALogitForEachClassAtAnySize) {
  torch::NoGradGuard no_grad;
  EXPECT_EQ(Make("resnet18", {3, 64, 48}, 7)
                ->forward(torch::zeros({2, 3, 64, 48}))
                .sizes(),
            (std::vector<int64_t>{2, 7}));
  EXPECT_EQ(Make("cnn", {3, 30, 21}, 4)
                ->forward(torch::zeros({5, 3, 30, 21}))
                .sizes(),
            (std::vector<int64_t>{5, 4}));
  // As the loader gives images: channels last in memory.
  EXPECT_EQ(Make("mlp", {1, 28, 28}, 10)
                ->forward(torch::zeros({3, 28, 28, 1}).permute({0, 3, 1, 2}))
                .sizes(),
            (std::vector<int64_t>{3, 10}));
}

TEST(Models, StartFromTheSameWeightsWithTheSameSeed) {
  torch::manual_seed(3);
  const auto first = Make("cnn", {1, 28, 28}, 10)->parameters();
  torch::manual_seed(3);
  const auto second = Make("cnn", {1, 28, 28}, 10)->parameters();
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(torch::equal(first[i], second[i]));
  }
}

TEST(Models, ComputeTheSameWithWeightsInTheOtherLayout) {
  torch::NoGradGuard no_grad;
  torch::manual_seed(4);
  auto model = Make("resnet18", {3, 64, 64}, 10);
  model->eval();
  const torch::Tensor images = torch::rand({2, 3, 64, 64});
  const torch::Tensor before = model->forward(images);
  UseChannelsLast(*model);
  for (const auto& named : model->named_parameters()) {
    if (named.value().dim() != 4) continue;
    EXPECT_EQ(named.value().stride(1), 1) << named.key();
  }
  EXPECT_TRUE(torch::allclose(
      before,
      model->forward(images.contiguous(torch::MemoryFormat::ChannelsLast)),
      1e-4, 1e-4));
}

TEST(Models, RefuseDataThatDoesNotFit) {
  EXPECT_THAT(Refusal("mlp", {3, 224, 224}, 10), HasSubstr("224x224x3 values"));
  EXPECT_THAT(Refusal("cnn", {1, 2, 2}, 10), HasSubstr("2x2x1"));
  EXPECT_THAT(Refusal("resnet18", {3, 224, 224}, 1), HasSubstr("1 classes"));
  EXPECT_THAT(Refusal("vgg", {3, 224, 224}, 10), HasSubstr("vgg"));
}

}  // namespace
}  // namespace millrace
