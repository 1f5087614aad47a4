#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/trainer/formula.h"
#include "trainer/class_loss.h"
#include "trainer/models/model.h"

namespace millrace::trainer {
namespace {

using ::millrace::testing::ExpectClose;
using ::millrace::testing::Fill;
using ::millrace::testing::Golden;
using ::millrace::testing::Images;

using ::testing::HasSubstr;

std::shared_ptr<models::Classifier> Make(const std::string& name,
                                         models::ImageShape shape,
                                         int64_t classes) {
  auto model = models::MakeModel(name, shape, classes);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

std::string Refusal(const std::string& name, models::ImageShape shape,
                    int64_t classes) {
  auto model = models::MakeModel(name, shape, classes);
  EXPECT_TRUE(absl::IsInvalidArgument(model.status())) << model.status();
  return std::string(model.status().message());
}

// The counts that torchvision's documentation and the papers give.
TEST(Models, HaveAsManyParametersAsTheirDefinition) {
  EXPECT_EQ(models::CountParameters(*Make("resnet18", {3, 224, 224}, 1000)),
            11689512);
  EXPECT_EQ(models::CountParameters(*Make("resnet34", {3, 224, 224}, 1000)),
            21797672);
  EXPECT_EQ(models::CountParameters(*Make("resnet50", {3, 224, 224}, 1000)),
            25557032);
  EXPECT_EQ(models::CountParameters(*Make("mlp", {1, 28, 28}, 10)),
            784 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10);
  EXPECT_EQ(models::CountParameters(*Make("cnn", {1, 28, 28}, 10)),
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

// With the same weights and images, in evaluation and in training: logits,
// running statistics and gradients.
TEST(Models, ComputeWhatTorchvisionComputes) {
  const auto golden = Golden("resnet.txt");
  for (const std::string name : {"resnet18", "resnet34", "resnet50"}) {
    SCOPED_TRACE(name);
    const auto expected = [&](const std::string& what) {
      const auto found = golden.find(name + " " + what);
      return found == golden.end() ? std::vector<double>() : found->second;
    };
    EXPECT_EQ(models::CountParameters(*Make(name, {3, 64, 64}, 1000)),
              expected("parameters").at(0));
    auto model = Make(name, {3, 64, 64}, 10);
    Fill(*model);
    const torch::Tensor images = Images({4, 3, 64, 64});
    model->eval();
    {
      const torch::NoGradGuard no_grad;
      ExpectClose(model->forward(images), expected("eval"), 1e-4, "eval");
    }
    model->train();
    const torch::Tensor logits = model->forward(images);
    ExpectClose(logits, expected("train"), 1e-3, "train");
    for (const std::string kind : {"running_mean", "running_var"}) {
      std::vector<torch::Tensor> buffers;
      for (const auto& named : model->named_buffers()) {
        if (named.key().find(kind) != std::string::npos) {
          buffers.push_back(named.value());
        }
      }
      ExpectClose(at::cat(buffers).to(torch::kDouble).norm(), expected(kind),
                  1e-4, kind);
    }
    const torch::Tensor loss =
        SumOfLosses(logits, torch::tensor({1, 7, 3, 0}, torch::kLong));
    ExpectClose(loss, expected("loss"), 1e-3, "loss");
    loss.backward();
    double squares = 0;
    for (const auto& named : model->named_parameters()) {
      const torch::Tensor norm = named.value().grad().to(torch::kDouble).norm();
      squares += std::pow(norm.item<double>(), 2);
      if (const auto one = expected(named.key()); !one.empty()) {
        ExpectClose(norm, one, 1e-2, named.key());
      }
    }
    EXPECT_NEAR(std::sqrt(squares), expected("gradients").at(0),
                5e-3 * expected("gradients").at(0));
  }
}

// As torchvision: normal numbers of variance 2 / (outputs * kernel) for
// convolutions, ones and zeros for normalisation, and no block begins as zero.
TEST(Models, StartResNetsAsTorchvisionDoes) {
  torch::manual_seed(5);
  const auto model = Make("resnet50", {3, 64, 64}, 10);
  const auto parameters = model->named_parameters();
  const torch::Tensor& conv = parameters["layer3.1.conv2.weight"];
  EXPECT_NEAR(conv.mean().item<double>(), 0, 1e-3);
  EXPECT_NEAR(conv.std().item<double>(), std::sqrt(2.0 / (256 * 9)), 5e-4);
  for (const auto& named : parameters) {
    if (named.key().find("bn") == std::string::npos) continue;
    const bool weight = named.key().find("weight") != std::string::npos;
    EXPECT_TRUE(named.value().eq(weight ? 1 : 0).all().item<bool>())
        << named.key();
  }
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
  models::UseChannelsLast(*model);
  for (const auto& named : model->named_parameters()) {
    if (named.value().dim() != 4) continue;
    EXPECT_EQ(named.value().stride(1), 1) << named.key();
  }
  EXPECT_TRUE(torch::allclose(
      before,
      model->forward(images.contiguous(torch::MemoryFormat::ChannelsLast)),
      1e-4, 1e-4));
}

// The mlp named models that then refused the data, too, and the resnets took
// vectors for images.
TEST(Models, NameOtherModelsThatTakeTheData) {
  const models::ImageShape kShapes[] = {
      {1, 1, 16},  {16, 1, 1},    {1, 1, 784},  {1, 28, 28}, {3, 32, 32},
      {1, 4, 300}, {3, 512, 512}, {1, 7, 1000}, {4, 14, 14}};
  for (const models::ImageShape& shape : kShapes) {
    SCOPED_TRACE(
        absl::StrCat(shape.channels, "x", shape.height, "x", shape.width));
    for (const std::string name : {"mlp", "cnn", "resnet18", "resnet50"}) {
      const auto model = models::MakeModel(name, shape, 10);
      if (model.ok()) {
        torch::NoGradGuard no_grad;
        (*model)->eval();
        EXPECT_EQ((*model)
                      ->forward(torch::zeros(
                          {1, shape.channels, shape.height, shape.width}))
                      .sizes(),
                  (std::vector<int64_t>{1, 10}))
            << name;
        continue;
      }
      const std::string why(model.status().message());
      EXPECT_THAT(why, HasSubstr("--model=torchscript:FILE"));
      for (const char* other : {"mlp", "cnn", "resnet18"}) {
        EXPECT_EQ(
            why.find(absl::StrCat("--model=", other)) != std::string::npos,
            models::MakeModel(other, shape, 10).ok())
            << name << " names " << other << ": " << why;
      }
    }
  }
}

TEST(Models, RefuseDataThatDoesNotFit) {
  EXPECT_THAT(Refusal("mlp", {3, 224, 224}, 10), HasSubstr("224x224x3 values"));
  EXPECT_THAT(Refusal("cnn", {1, 2, 2}, 10), HasSubstr("2x2x1"));
  EXPECT_THAT(Refusal("resnet18", {16, 1, 1}, 10), HasSubstr("1x1x16"));
  EXPECT_THAT(Refusal("resnet18", {1, 1, 16}, 10),
              HasSubstr("samples are vectors of 16 values;"));
  EXPECT_THAT(Refusal("resnet18", {3, 224, 224}, 0), HasSubstr("0 outputs"));
  EXPECT_THAT(Refusal("vgg", {3, 224, 224}, 10), HasSubstr("vgg"));
}

}  // namespace
}  // namespace millrace::trainer
