// ResNet-18 as torchvision defines it: the same layers, names, initialisation
// and parameter count (He et al., "Deep Residual Learning for Image
// Recognition", 2015).

#ifndef MILLRACE_TRAINER_MODELS_RESNET_H_
#define MILLRACE_TRAINER_MODELS_RESNET_H_

#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "trainer/models/model.h"

namespace millrace {

inline torch::nn::Conv2d ResNetConv(int64_t in, int64_t out, int64_t kernel,
                                    int64_t stride) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel)
                               .stride(stride)
                               .padding(kernel / 2)
                               .bias(false));
}

// Two 3x3 convolutions and the way around them.
class BasicBlockImpl final : public torch::nn::Module {
 public:
  BasicBlockImpl(int64_t in, int64_t out, int64_t stride)
      : conv1_(register_module("conv1", ResNetConv(in, out, 3, stride))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(out))),
        conv2_(register_module("conv2", ResNetConv(out, out, 3, 1))),
        bn2_(register_module("bn2", torch::nn::BatchNorm2d(out))) {
    if (stride != 1 || in != out) {
      downsample_ = register_module(
          "downsample", torch::nn::Sequential(ResNetConv(in, out, 1, stride),
                                              torch::nn::BatchNorm2d(out)));
    }
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
  torch::nn::Sequential downsample_{nullptr};
};
TORCH_MODULE(BasicBlock);

class ResNet18 final : public Classifier {
 public:
  ResNet18(int64_t channels, int64_t classes)
      : conv1_(register_module("conv1", ResNetConv(channels, 64, 7, 2))),
        bn1_(register_module("bn1", torch::nn::BatchNorm2d(64))),
        layer1_(register_module("layer1", Layer(64, 64, 1))),
        layer2_(register_module("layer2", Layer(64, 128, 2))),
        layer3_(register_module("layer3", Layer(128, 256, 2))),
        layer4_(register_module("layer4", Layer(256, 512, 2))),
        fc_(register_module("fc", torch::nn::Linear(512, classes))) {
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
    x = layer1_->forward(x);
    x = layer2_->forward(x);
    x = layer3_->forward(x);
    x = layer4_->forward(x);
    return fc_(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  static torch::nn::Sequential Layer(int64_t in, int64_t out, int64_t stride) {
    return torch::nn::Sequential(BasicBlock(in, out, stride),
                                 BasicBlock(out, out, 1));
  }

  torch::nn::Conv2d conv1_;
  torch::nn::BatchNorm2d bn1_;
  torch::nn::Sequential layer1_, layer2_, layer3_, layer4_;
  torch::nn::Linear fc_;
};

}  // namespace millrace

#endif  // MILLRACE_TRAINER_MODELS_RESNET_H_
