// ResNet-18, -34 and -50 as torchvision defines them: the same layers, names,
// initialisation and parameter counts (He et al., "Deep Residual Learning for
// Image Recognition", 2015; like torchvision's, the bottleneck strides in its
// 3x3 convolution). Weights of the one are weights of the other.
//
// Takes images of any size from 8x8 on: in smaller ones, and in vectors, every
// layer but the first would see a single pixel. From 33x33 on training needs no
// more than one sample a batch.
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

#include "trainer/models/model.h"

namespace millrace {

inline torch::nn::Conv2d ResNetConv(int64_t in, int64_t out, int64_t kernel,
                                    int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel)
                               .stride(stride)
                               .padding(kernel / 2)
                               .bias(false));
}

// The way around a block where its input and output have different shapes.
inline torch::nn::Sequential ResNetDownsample(int64_t in, int64_t out,
                                              int64_t stride) {
  if (stride == 1 && in == out) return nullptr;
  return torch::nn::Sequential(ResNetConv(in, out, 1, stride),
                               torch::nn::BatchNorm2d(out));
}

// Two 3x3 convolutions and the way around them.
class BasicBlockImpl final : public torch::nn::Module {
 public:
  static constexpr int64_t kExpansion = 1;

  BasicBlockImpl(int64_t in, int64_t width, int64_t stride)
      : conv1_(register_module("conv1", ResNetConv(in, width, 3, stride))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(width))),
        conv2_(register_module("conv2", ResNetConv(width, width, 3, 1))),
        bn2_(register_module("bn2", torch::nn::BatchNorm2d(width))),
        downsample_(ResNetDownsample(in, width, stride)) {
    if (!downsample_.is_empty()) register_module("downsample", downsample_);
  }

  torch::Tensor forward(torch::Tensor x) {
    torch::Tensor y = torch::relu(bn1_(conv1_(x)));
    y = bn2_(conv2_(y));
    return torch::relu(y +
                       (downsample_.is_empty() ? x : downsample_->forward(x)));
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d bn2_;
  torch::nn::Sequential downsample_;
};
TORCH_MODULE(BasicBlock);

// 1x1 down to `width` channels, 3x3, and 1x1 up to four times as many.
class BottleneckImpl final : public torch::nn::Module {
 public:
  static constexpr int64_t kExpansion = 4;

  BottleneckImpl(int64_t in, int64_t width, int64_t stride)
      : conv1_(register_module("conv1", ResNetConv(in, width, 1, 1))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(width))),
        conv2_(register_module("conv2", ResNetConv(width, width, 3, stride))),
        bn2_(register_module("bn2", torch::nn::BatchNorm2d(width))),
        conv3_(register_module("conv3",
                               ResNetConv(width, kExpansion * width, 1, 1))),
        bn3_(
            register_module("bn3", torch::nn::BatchNorm2d(kExpansion * width))),
        downsample_(ResNetDownsample(in, kExpansion * width, stride)) {
    if (!downsample_.is_empty()) register_module("downsample", downsample_);
  }

  torch::Tensor forward(torch::Tensor x) {
    torch::Tensor y = torch::relu(bn1_(conv1_(x)));
    y = torch::relu(bn2_(conv2_(y)));
    y = bn3_(conv3_(y));
    return torch::relu(y +
                       (downsample_.is_empty() ? x : downsample_->forward(x)));
  }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  torch::nn::BatchNorm2d bn2_;
  torch::nn::Conv2d conv3_;
  torch::nn::BatchNorm2d bn3_;
  torch::nn::Sequential downsample_;
};
TORCH_MODULE(Bottleneck);

enum class ResNetDepth { k18, k34, k50 };

class ResNet final : public Classifier {
 public:
  static constexpr int64_t kLeastSide = 8;

  ResNet(ResNetDepth depth, int64_t channels, int64_t classes)
      : conv1_(register_module("conv1", ResNetConv(channels, 64, 7, 2))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(64))) {
    const std::array<int64_t, 4> blocks =
        depth == ResNetDepth::k18 ? std::array<int64_t, 4>{2, 2, 2, 2}
                                  : std::array<int64_t, 4>{3, 4, 6, 3};
    int64_t in = 64;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const int64_t width = int64_t{64} << i;
      const int64_t stride = i == 0 ? 1 : 2;
      layers_[i] = register_module(
          "layer" + std::to_string(i + 1),
          depth == ResNetDepth::k50
              ? Layer<Bottleneck>(in, width, blocks[i], stride)
              : Layer<BasicBlock>(in, width, blocks[i], stride));
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
  // The first block strides and takes `in` channels, which becomes what the
  // last one gives.
  template <typename Block>
  static torch::nn::Sequential Layer(int64_t& in, int64_t width, int64_t blocks,
                                     int64_t stride) {
    torch::nn::Sequential layer;
    for (int64_t i = 0; i < blocks; ++i) {
      layer->push_back(Block(in, width, i == 0 ? stride : 1));
      in = Block::ContainedType::kExpansion * width;
    }
    return layer;
  }

  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  std::array<torch::nn::Sequential, 4> layers_ = {nullptr, nullptr, nullptr,
                                                  nullptr};
  torch::nn::Linear fc_{nullptr};
};

}  // namespace millrace

#endif  // MILLRACE_TRAINER_MODELS_RESNET_H_
