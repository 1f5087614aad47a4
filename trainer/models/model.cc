#include "trainer/models/model.h"

#include <ATen/Functions.h>

#include "absl/strings/str_cat.h"
#include "trainer/models/cnn.h"
#include "trainer/models/mlp.h"
#include "trainer/models/resnet.h"

namespace millrace {

absl::StatusOr<std::shared_ptr<Classifier>> MakeModel(const std::string& name,
                                                      const ImageShape& shape,
                                                      int64_t classes) {
  const std::string given =
      absl::StrCat("the data's samples have ", shape.height, "x", shape.width,
                   "x", shape.channels, " values");
  if (classes < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the data has ", classes,
        " classes; a classifier needs at least 2, named in the dataset"));
  }
  if (name == "mlp") {
    if (shape.channels * shape.height * shape.width != Mlp::kInput) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the mlp takes samples of 784 values (28x28x1), but ", given,
          "; choose --model=cnn or resnet18, or another preset"));
    }
    return std::make_shared<Mlp>(classes);
  }
  if (name == "cnn") {
    if (shape.channels < 1 || shape.height < 4 || shape.width < 4 ||
        shape.height > 256 || shape.width > 256) {
      return absl::InvalidArgumentError(
          absl::StrCat("the cnn takes images of 4x4 to 256x256 pixels, but ",
                       given, "; choose --model=resnet18 or another preset"));
    }
    return std::make_shared<Cnn>(shape, classes);
  }
  if (name == "resnet18") {
    if (shape.channels < 1 || shape.height < 1 || shape.width < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("resnet18 takes images, but ", given));
    }
    return std::make_shared<ResNet18>(shape.channels, classes);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown model \"", name, "\"; choose mlp, cnn or resnet18"));
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

int64_t CountParameters(const torch::nn::Module& model) {
  int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters()) {
    count += parameter.numel();
  }
  return count;
}

}  // namespace millrace
