// ResNet-18, -34 and -50 as torchvision defines them: the same layers, names,
// initialisation and parameter counts (He et al., "Deep Residual Learning for
// Image Recognition", 2015; like torchvision's, the bottleneck strides in its
// 3x3 convolution). Weights of the one are weights of the other.
//
// Takes images of 8x8 pixels or more: with smaller ones, and with vectors,
// every layer but the first would see a single pixel. From 33x33 pixels on,
// training needs only one sample per batch.
//
//   ResNet model(ResNetDepth::k50, /*channels=*/3, /*classes=*/1000);

#ifndef MILLRACE_TRAINER_MODELS_RESNET_H_
#define MILLRACE_TRAINER_MODELS_RESNET_H_

#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <string>
#include <vector>

#include "trainer/models/model.h"

namespace millrace::models {

inline torch::nn::Conv2d ResNetConv(int64_t in, int64_t out, int64_t kernel,
                                    int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel)
                               .stride(stride)
                               .padding(kernel / 2)
                               .bias(false));
}

// The skip connection of a block whose input and output have different shapes.
inline torch::nn::Sequential ResNetDownsample(int64_t in, int64_t out,
                                              int64_t stride) {
  if (stride == 1 && in == out) return nullptr;
  return torch::nn::Sequential(ResNetConv(in, out, 1, stride),
                               torch::nn::BatchNorm2d(out));
}

// A block with a skip connection: two 3x3 convolutions, or as a bottleneck 1x1
// down to `width` channels, 3x3, and 1x1 up to four times as many.
class ResNetBlockImpl final : public torch::nn::Module {
 public:
  ResNetBlockImpl(bool bottleneck, int64_t in, int64_t width, int64_t stride) {
    const int64_t out = Outputs(bottleneck, width);
    if (bottleneck) {
      Add(in, width, 1, 1);
      Add(width, width, 3, stride);
      Add(width, out, 1, 1);
    } else {
      Add(in, width, 3, stride);
      Add(width, out, 3, 1);
    }
    downsample_ = ResNetDownsample(in, out, stride);
    if (!downsample_.is_empty()) register_module("downsample", downsample_);
  }

  static int64_t Outputs(bool bottleneck, int64_t width) {
    return bottleneck ? 4 * width : width;
  }

  torch::Tensor forward(torch::Tensor x) {
    torch::Tensor y = x;
    for (size_t i = 0; i < convolutions_.size(); ++i) {
      if (i > 0) y = torch::relu(y);
      y = norms_[i](convolutions_[i](y));
    }
    return torch::relu(y +
                       (downsample_.is_empty() ? x : downsample_->forward(x)));
  }

 private:
  void Add(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
    const std::string number = std::to_string(convolutions_.size() + 1);
    convolutions_.push_back(
        register_module("conv" + number, ResNetConv(in, out, kernel, stride)));
    norms_.push_back(
        register_module("bn" + number, torch::nn::BatchNorm2d(out)));
  }

  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<torch::nn::BatchNorm2d> norms_;
  torch::nn::Sequential downsample_{nullptr};
};
TORCH_MODULE(ResNetBlock);

enum class ResNetDepth { k18, k34, k50 };

class ResNet final : public Classifier {
 public:
  static constexpr int64_t kMinSide = 8;

  ResNet(ResNetDepth depth, int64_t channels, int64_t classes)
      : conv1_(register_module("conv1", ResNetConv(channels, 64, 7, 2))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(64))) {
    const std::array<int64_t, 4> blocks =
        depth == ResNetDepth::k18 ? std::array<int64_t, 4>{2, 2, 2, 2}
                                  : std::array<int64_t, 4>{3, 4, 6, 3};
    const bool bottleneck = depth == ResNetDepth::k50;
    int64_t in = 64;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const int64_t width = int64_t{64} << i;
      const int64_t stride = i == 0 ? 1 : 2;
      // The first block of a layer strides.
      torch::nn::Sequential layer;
      for (int64_t block = 0; block < blocks[i]; ++block) {
        layer->push_back(
            ResNetBlock(bottleneck, in, width, block == 0 ? stride : 1));
        in = ResNetBlockImpl::Outputs(bottleneck, width);
      }
      layers_[i] = register_module("layer" + std::to_string(i + 1), layer);
    }
    fc_ = register_module("fc", torch::nn::Linear(in, classes));
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* conv = module->as<torch::nn::Conv2d>()) {
        torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut,
                                         torch::kReLU);
      }
    }
  }

  torch::Tensor forward(torch::Tensor images) override {
    torch::Tensor x = torch::relu(bn1_(conv1_(images)));
    x = torch::max_pool2d(x, /*kernel=*/3, /*stride=*/2, /*padding=*/1);
    for (torch::nn::Sequential& layer : layers_) x = layer->forward(x);
    return fc_(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  std::array<torch::nn::Sequential, 4> layers_ = {nullptr, nullptr, nullptr,
                                                  nullptr};
  torch::nn::Linear fc_{nullptr};
};

}  // namespace millrace::models

#endif  // MILLRACE_TRAINER_MODELS_RESNET_H_
