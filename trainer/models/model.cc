#include "trainer/models/model.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/count_text.h"
#include "trainer/models/cnn.h"
#include "trainer/models/mlp.h"
#include "trainer/models/model_name.h"
#include "trainer/models/resnet.h"
#include "trainer/models/script_model.h"
#include "trainer/models/unet.h"

namespace millrace::models {
namespace {

bool HasSides(const ImageShape& shape, int64_t min, int64_t max) {
  return shape.channels >= 1 && std::min(shape.height, shape.width) >= min &&
         std::max(shape.height, shape.width) <= max;
}

// The samples that a built-in model takes, for people.
absl::string_view Wanted(absl::string_view name) {
  if (name == "mlp") return "samples of 784 values (28x28x1)";
  if (name == "cnn") return "images of 4x4 to 256x256 pixels";
  return "images of 8x8 pixels or more";
}

bool Takes(absl::string_view name, const ImageShape& shape) {
  if (name == "mlp") {
    return shape.channels * shape.height * shape.width == Mlp::kInput;
  }
  if (name == "cnn") return HasSides(shape, 4, 256);
  static_assert(ResNet::kMinSide == UNet::kMinSide);
  return HasSides(shape, UNet::kMinSide, std::numeric_limits<int64_t>::max());
}

// To its owner a vector is no image of one line.
std::string Text(const ImageShape& shape) {
  if (shape.channels == 1 && shape.height == 1) {
    return absl::StrCat("are vectors of ",
                        CountText(static_cast<uint64_t>(shape.width), "value"));
  }
  return absl::StrCat("have ", shape.height, "x", shape.width, "x",
                      shape.channels, " values");
}

// Advice for samples that a model refuses: models with the same kind of
// outputs that take them.
std::string OtherModels(const ModelName& refused, const ImageShape& shape) {
  std::vector<std::string> models;
  for (const char* const name : {"mlp", "cnn", "resnet18"}) {
    if (!refused.of_pixels && Takes(name, shape)) {
      models.push_back(absl::StrCat("--model=", name));
    }
  }
  models.push_back(
      "--model=torchscript:FILE with a module of your own for such samples");
  return absl::StrCat("; choose ", absl::StrJoin(models, ", "),
                      ", or another pipeline");
}

}  // namespace

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
  if (outputs < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", name, " would have ", outputs,
                     " outputs; choose data with a target that has values"));
  }
  if (!Takes(name, shape)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the ", name, " takes ", Wanted(name), ", but the data's samples ",
        Text(shape), OtherModels(*parsed, shape)));
  }
  if (name == "mlp") return std::make_shared<Mlp>(outputs);
  if (name == "cnn") return std::make_shared<Cnn>(shape, outputs);
  if (name == "unet") {
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

}  // namespace millrace::models
