// The trainer's models, by name. Each takes float32 images [rows, channels,
// height, width] and gives float32 [rows, outputs]: a logit for each class, or
// whatever numbers the loss wants. The unet gives them for each pixel, [rows,
// outputs, height, width]. A module of a user's file takes what InputForm says.
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

  friend bool operator==(const ImageShape&, const ImageShape&) = default;
};

// What a model of a user's file is fed: a batch is [rows, sizes...].
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
// "torchscript:FILE": a module of the user's, on `device`; whether it takes
// such images and gives so many outputs is found by running it (fit.h).
// The weights of the others come from libtorch's global generator and lie on
// the CPU. InvalidArgument: unknown name, or a shape or number of outputs that
// the model does not take: names those of this list that take the shape.
absl::StatusOr<std::shared_ptr<Classifier>> MakeModel(
    const std::string& name, const ImageShape& shape, int64_t outputs,
    torch::Device device = torch::kCPU);

// Lays the weights of convolutions out channels-last, as the loader's images
// are: convolutions then need no reordering, and gradients come in the layout
// that the buckets of several ranks expect.
void UseChannelsLast(torch::nn::Module& model);

// Those that want a gradient: a file's module may have others, which stay.
std::vector<torch::Tensor> TrainableParameters(const torch::nn::Module& model);

// Values of all parameters.
int64_t CountParameters(const torch::nn::Module& model);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_MODELS_MODEL_H_
