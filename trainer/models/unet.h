// A small U-Net (Ronneberger et al., "U-Net: Convolutional Networks for
// Biomedical Image Segmentation", 2015): values for each pixel of an image.
// Four levels of 16, 32, 64 and 128 channels, each of two 3x3 convolutions with
// normalisation and ReLU; half the size with each level down by 2x2 pooling,
// and back by 2x2 transposed convolutions, each joined with what its level gave
// on the way down; a 1x1 convolution at the end. 482,754 parameters with three
// channels and two outputs.
//
// It normalises over groups of channels of a sample (Wu and He, "Group
// Normalization", 2018), not over the batch: batches are small, and the result
// does not depend on how a batch is shared among ranks.

#ifndef MILLRACE_TRAINER_MODELS_UNET_H_
#define MILLRACE_TRAINER_MODELS_UNET_H_

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trainer/models/model.h"

namespace millrace::models {

class UNet final : public Classifier {
 public:
  // One pixel remains on the lowest level.
  static constexpr int64_t kMinSide = 8;

  UNet(int64_t channels, int64_t outputs) {
    int64_t from = channels;
    for (size_t level = 0; level < kWidths.size(); ++level) {
      down_.push_back(register_module(
          absl::StrCat("down", level),
          std::make_shared<TwoConvolutions>(from, kWidths[level])));
      from = kWidths[level];
    }
    for (size_t level = kWidths.size() - 1; level-- > 0;) {
      grow_.push_back(register_module(
          absl::StrCat("grow", level),
          torch::nn::ConvTranspose2d(
              torch::nn::ConvTranspose2dOptions(from, kWidths[level], 2)
                  .stride(2))));
      from = kWidths[level];
      up_.push_back(
          register_module(absl::StrCat("up", level),
                          std::make_shared<TwoConvolutions>(2 * from, from)));
    }
    head_ = register_module(
        "head", torch::nn::Conv2d(torch::nn::Conv2dOptions(from, outputs, 1)));
  }

  torch::Tensor forward(torch::Tensor images) override {
    std::vector<torch::Tensor> levels;
    torch::Tensor x = std::move(images);
    for (const auto& down : down_) {
      if (!levels.empty()) x = torch::max_pool2d(x, 2);
      levels.push_back(x = down->forward(x));
    }
    for (size_t i = 0; i < up_.size(); ++i) {
      const torch::Tensor& beside = levels[levels.size() - 2 - i];
      x = grow_[i]->forward(x);
      // Pooling dropped the last row or column of an odd size.
      const int64_t rows = beside.size(2) - x.size(2);
      const int64_t columns = beside.size(3) - x.size(3);
      if (rows > 0 || columns > 0) {
        x = torch::replication_pad2d(x, {0, columns, 0, rows});
      }
      x = up_[i]->forward(torch::cat({beside, x}, 1));
    }
    return head_(x);
  }

 private:
  static constexpr std::array<int64_t, 4> kWidths = {16, 32, 64, 128};

  struct TwoConvolutions final : public torch::nn::Module {
    static constexpr int64_t kGroups = 8;

    TwoConvolutions(int64_t from, int64_t to)
        : conv1(register_module("conv1", Convolution(from, to))),
          norm1(register_module(
              "norm1",
              torch::nn::GroupNorm(torch::nn::GroupNormOptions(kGroups, to)))),
          conv2(register_module("conv2", Convolution(to, to))),
          norm2(register_module(
              "norm2",
              torch::nn::GroupNorm(torch::nn::GroupNormOptions(kGroups, to)))) {
    }

    // Without a bias: the normalisation cancels it and has its own.
    static torch::nn::Conv2d Convolution(int64_t from, int64_t to) {
      return torch::nn::Conv2d(
          torch::nn::Conv2dOptions(from, to, 3).padding(1).bias(false));
    }
    torch::Tensor forward(const torch::Tensor& x) {
      return torch::relu(norm2(conv2(torch::relu(norm1(conv1(x))))));
    }

    torch::nn::Conv2d conv1;
    torch::nn::GroupNorm norm1;
    torch::nn::Conv2d conv2;
    torch::nn::GroupNorm norm2;
  };

  std::vector<std::shared_ptr<TwoConvolutions>> down_, up_;
  std::vector<torch::nn::ConvTranspose2d> grow_;
  torch::nn::Conv2d head_{nullptr};
};

}  // namespace millrace::models

#endif  // MILLRACE_TRAINER_MODELS_UNET_H_
