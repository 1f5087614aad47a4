#include "trainer/models/model.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "trainer/models/cnn.h"
#include "trainer/models/mlp.h"
#include "trainer/models/model_name.h"
#include "trainer/models/resnet.h"
#include "trainer/models/script_model.h"
#include "trainer/models/unet.h"

namespace millrace {

absl::StatusOr<std::shared_ptr<Classifier>> MakeModel(const std::string& name,
                                                      const ImageShape& shape,
                                                      int64_t outputs,
                                                      torch::Device device) {
  const absl::StatusOr<ModelName> parsed = ParseModelName(name);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model ", parsed.status().message()));
  }
  if (!parsed->file.empty()) return MakeScriptModel(parsed->file, device);
  const std::string given =
      absl::StrCat("the data's samples have ", shape.height, "x", shape.width,
                   "x", shape.channels, " values");
  if (outputs < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", name, " would have ", outputs,
                     " outputs; give it data with "
                     "a target that holds something"));
  }
  if (name == "mlp") {
    if (shape.channels * shape.height * shape.width != Mlp::kInput) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the mlp takes samples of 784 values (28x28x1), but ", given,
          "; choose --model=cnn or resnet18, or another preset"));
    }
    return std::make_shared<Mlp>(outputs);
  }
  if (name == "cnn") {
    if (shape.channels < 1 || shape.height < 4 || shape.width < 4 ||
        shape.height > 256 || shape.width > 256) {
      return absl::InvalidArgumentError(
          absl::StrCat("the cnn takes images of 4x4 to 256x256 pixels, but ",
                       given, "; choose --model=resnet18 or another preset"));
    }
    return std::make_shared<Cnn>(shape, outputs);
  }
  if (shape.channels < 1 || shape.height < 1 || shape.width < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " takes images, but ", given));
  }
  if (name == "unet") {
    if (std::min(shape.height, shape.width) < UNet::kLeastSide) {
      return absl::InvalidArgumentError(
          absl::StrCat("the unet takes images of 8x8 pixels or more, but ",
                       given, "; choose another preset"));
    }
    return std::make_shared<UNet>(shape.channels, outputs);
  }
  const ResNetDepth depth = name == "resnet18"   ? ResNetDepth::k18
                            : name == "resnet34" ? ResNetDepth::k34
                                                 : ResNetDepth::k50;
  return std::make_shared<ResNet>(depth, shape.channels, outputs);
}

void UseChannelsLast(torch::nn::Module& model) {
  for (torch::Tensor& parameter : model.parameters()) {
    if (parameter.dim() != 4) continue;
    // contiguous() would keep 1x1 kernels, whose strides fit both layouts.
    torch::Tensor laid_out =
        at::empty_like(parameter.detach(), {}, at::MemoryFormat::ChannelsLast);
    laid_out.copy_(parameter.detach());
    parameter.set_data(laid_out);
  }
}

std::vector<torch::Tensor> TrainableParameters(const torch::nn::Module& model) {
  std::vector<torch::Tensor> trainable;
  for (const torch::Tensor& parameter : model.parameters()) {
    if (parameter.requires_grad()) trainable.push_back(parameter);
  }
  return trainable;
}

int64_t CountParameters(const torch::nn::Module& model) {
  int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters()) {
    count += parameter.numel();
  }
  return count;
}

}  // namespace millrace
