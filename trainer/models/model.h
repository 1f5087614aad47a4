// The trainer's models, by name. Each takes float32 images [rows, channels,
// height, width] and returns float32 [rows, outputs]: a logit for each class,
// or the numbers that the loss needs. The unet returns them for each pixel,
// [rows, outputs, height, width]. A module of a user's file takes InputForm.
//
//   MR_ASSIGN_OR_RETURN(auto model, MakeModel("resnet50", {3, 224, 224},
//   1000)); torch::Tensor logits = model->forward(images);

#ifndef MILLRACE_TRAINER_MODELS_MODEL_H_
#define MILLRACE_TRAINER_MODELS_MODEL_H_

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace::models {

class Classifier : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor images) = 0;
};

// Shape of a built-in model's samples. Vectors are 1 x 1 x length.
struct ImageShape {
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;

  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

// Shape and type of the samples of a model from a user's file: a batch is
// [rows, sizes...].
struct InputForm {
  std::vector<int64_t> sizes;
  torch::ScalarType type = torch::kFloat;

  friend bool operator==(const InputForm&, const InputForm&) = default;
};

// "mlp": 784-128-64-outputs with ReLU, for samples of 784 values.
// "cnn": two 3x3 convolutions (32, 64) with ReLU and pooling, then 128.
// "resnet18", "resnet34", "resnet50": as torchvision defines them, from 8 x 8
// pixels on.
// "unet": an image-to-image network (unet.h), from 8 x 8 pixels on.
// "torchscript:FILE": the user's module, on `device`. Only CheckFit() (fit.h)
// finds out whether it takes such samples and has so many outputs.
// The first weights of built-in models come from libtorch's global generator
// and are on the CPU. InvalidArgument: an unknown name, or a shape or number of
// outputs that the model does not take; the message lists the models that take
// the shape.
absl::StatusOr<std::shared_ptr<Classifier>> MakeModel(
    const std::string& name, const ImageShape& shape, int64_t outputs,
    torch::Device device = torch::kCPU);

// Converts the weights of convolutions to channels-last, the layout of the
// loader's images: convolutions then need no reordering, and gradients come in
// the layout that the Reducer's buckets expect.
void UseChannelsLast(torch::nn::Module& model);

// The parameters that require a gradient: a file's module may have others,
// which are not trained.
std::vector<torch::Tensor> TrainableParameters(const torch::nn::Module& model);

// Number of values in all parameters.
int64_t CountParameters(const torch::nn::Module& model);

}  // namespace millrace::models

#endif  // MILLRACE_TRAINER_MODELS_MODEL_H_
