// 784-128-64-outputs with ReLU between: the classic first network for MNIST.

#ifndef MILLRACE_TRAINER_MODELS_MLP_H_
#define MILLRACE_TRAINER_MODELS_MLP_H_

#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/linear.h>

#include "trainer/models/model.h"

namespace millrace::models {

class Mlp final : public Classifier {
 public:
  static constexpr int64_t kInput = 784;

  explicit Mlp(int64_t outputs)
      : fc1_(register_module("fc1", torch::nn::Linear(kInput, 128))),
        fc2_(register_module("fc2", torch::nn::Linear(128, 64))),
        fc3_(register_module("fc3", torch::nn::Linear(64, outputs))) {}

  torch::Tensor forward(torch::Tensor images) override {
    torch::Tensor x = images.flatten(1);
    x = torch::relu(fc1_(x));
    x = torch::relu(fc2_(x));
    return fc3_(x);
  }

 private:
  torch::nn::Linear fc1_, fc2_, fc3_;
};

}  // namespace millrace::models

#endif  // MILLRACE_TRAINER_MODELS_MLP_H_
