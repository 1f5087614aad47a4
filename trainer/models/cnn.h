// Two convolutions, each with ReLU and 2x2 pooling, then two linear layers: a
// small network for MNIST-sized images. No BatchNorm, no dropout.

#ifndef MILLRACE_TRAINER_MODELS_CNN_H_
#define MILLRACE_TRAINER_MODELS_CNN_H_

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "trainer/models/model.h"

namespace millrace::models {

class Cnn final : public Classifier {
 public:
  Cnn(const ImageShape& shape, int64_t outputs)
      : conv1_(register_module(
            "conv1",
            torch::nn::Conv2d(
                torch::nn::Conv2dOptions(shape.channels, 32, 3).padding(1)))),
        conv2_(register_module(
            "conv2",
            torch::nn::Conv2d(torch::nn::Conv2dOptions(32, 64, 3).padding(1)))),
        fc1_(register_module(
            "fc1", torch::nn::Linear(
                       64 * (shape.height / 4) * (shape.width / 4), 128))),
        fc2_(register_module("fc2", torch::nn::Linear(128, outputs))) {}

  torch::Tensor forward(torch::Tensor images) override {
    torch::Tensor x = torch::max_pool2d(torch::relu(conv1_(images)), 2);
    x = torch::max_pool2d(torch::relu(conv2_(x)), 2);
    x = torch::relu(fc1_(x.flatten(1)));
    return fc2_(x);
  }

 private:
  torch::nn::Conv2d conv1_, conv2_;
  torch::nn::Linear fc1_, fc2_;
};

}  // namespace millrace::models

#endif  // MILLRACE_TRAINER_MODELS_CNN_H_
