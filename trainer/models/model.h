// The trainer's models, by name. Each takes float32 images [rows, channels,
// height, width] and gives logits [rows, classes].
//
//   MR_ASSIGN_OR_RETURN(auto model, MakeModel("resnet18", {3, 224, 224},
//   1000)); torch::Tensor logits = model->forward(images);

#ifndef MILLRACE_TRAINER_MODELS_MODEL_H_
#define MILLRACE_TRAINER_MODELS_MODEL_H_

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace millrace {

class Classifier : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor images) = 0;
};

// What a model is fed. Plain vectors are 1 x 1 x length.
struct ImageShape {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
};

// "mlp": 784-128-64-classes with ReLU, for samples of 784 values.
// "cnn": two 3x3 convolutions (32, 64) with ReLU and pooling, then 128.
// "resnet18": as torchvision defines it, any size.
// Weights come from libtorch's global generator. InvalidArgument: unknown name,
// or a shape or number of classes that the model does not take.
absl::StatusOr<std::shared_ptr<Classifier>> MakeModel(const std::string& name,
                                                      const ImageShape& shape,
                                                      int64_t classes);

// Lays the weights of convolutions out channels-last, as the loader's images
// are: convolutions then need no reordering, and gradients come in the layout
// that the buckets of several ranks expect.
void UseChannelsLast(torch::nn::Module& model);

// Trainable values.
int64_t CountParameters(const torch::nn::Module& model);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_MODELS_MODEL_H_
