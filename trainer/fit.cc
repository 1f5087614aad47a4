#include "trainer/fit.h"

#include <ATen/Functions.h>
#include <torch/utils.h>

#include <exception>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/torch_error.h"

namespace millrace::trainer {
namespace {

// Two rows show a model that accepts one batch size only, or that mixes rows.
constexpr int64_t kRows = 2;

std::string Shape(c10::IntArrayRef sizes) {
  return absl::StrCat("[", absl::StrJoin(sizes, ", "), "]");
}

// Sizes of a batch of targets.
std::vector<int64_t> SizesOf(const losses::TargetForm& form) {
  if (form.kind == losses::TargetForm::kClasses) return {kRows};
  if (form.kind == losses::TargetForm::kPixelClasses) {
    return {kRows, form.height, form.width};
  }
  if (!form.of_pixels()) return {kRows, form.outputs};
  return {kRows, form.channels, form.height, form.width};
}

torch::ScalarType TypeOf(const losses::TargetForm& form) {
  return form.kind == losses::TargetForm::kClasses ||
                 form.kind == losses::TargetForm::kPixelClasses
             ? torch::kLong
             : torch::kFloat;
}

const char* NameOf(torch::ScalarType type) {
  return type == torch::kLong ? "int64" : "float32";
}

torch::Tensor Zeros(const std::vector<int64_t>& sizes, torch::ScalarType type,
                    torch::Device device) {
  return at::zeros(sizes, torch::TensorOptions(type).device(device));
}

// True when the built-in losses accept outputs of this shape.
bool Fits(const losses::TargetForm& form, c10::IntArrayRef outputs) {
  if (form.of_pixels() && outputs.size() == 4) {
    return outputs.slice(1) ==
           c10::IntArrayRef({form.channels, form.height, form.width});
  }
  if (form.kind == losses::TargetForm::kPixelClasses) return false;
  if (form.outputs == 1 && outputs.size() == 1) return true;
  return outputs.size() == 2 && outputs[1] == form.outputs;
}

std::string Wanted(const losses::TargetForm& form) {
  const std::string of_pixels =
      form.of_pixels() ? Shape({kRows, form.channels, form.height, form.width})
                       : "";
  if (form.kind == losses::TargetForm::kPixelClasses) {
    return absl::StrCat(of_pixels, ", one number for each class and pixel");
  }
  return absl::StrCat(Shape({kRows, form.outputs}),
                      of_pixels.empty() ? "" : " or ", of_pixels, ", ",
                      form.classes > 0 ? "one number for each class of the data"
                                       : "as many numbers as the target");
}

}  // namespace

absl::Status CheckFit(models::Classifier& model, losses::Loss& loss,
                      const models::InputForm& input,
                      const losses::TargetForm& form, losses::LossKind kind,
                      const std::string& name, torch::Device device) {
  const torch::NoGradGuard no_grad;
  const bool training = model.is_training();
  model.eval();
  const absl::Cleanup restore = [&] { model.train(training); };
  std::vector<int64_t> sizes = {kRows};
  sizes.insert(sizes.end(), input.sizes.begin(), input.sizes.end());
  const std::string fed = absl::StrCat(
      "the model ", name, ", given ", NameOf(input.type), " zeros of shape ",
      Shape(sizes), sizes.size() == 4 ? " (rows, channels, height, width)" : "",
      ", the shape of the data, ");
  torch::Tensor outputs;
  try {
    torch::Tensor zeros = Zeros(sizes, input.type, device);
    if (sizes.size() == 4) {
      zeros = zeros.contiguous(at::MemoryFormat::ChannelsLast);
    }
    outputs = model.forward(std::move(zeros));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(fed, "failed: ", TorchSentence(error),
                     "; choose a preset or --input of a shape that the model "
                     "takes, or a model for this shape"));
  }
  if (!outputs.defined()) {
    return absl::InvalidArgumentError(absl::StrCat(fed, "returned no values"));
  }
  if (outputs.dim() < 1 || outputs.size(0) != kRows) {
    return absl::InvalidArgumentError(absl::StrCat(
        fed, "returned ", Shape(outputs.sizes()), "; it must return ", kRows,
        " rows for ", kRows,
        ". It was perhaps traced with a fixed batch size: use sizes such as -1 "
        "in view(), or save torch.jit.script(module)"));
  }
  if (kind == losses::LossKind::kTorchScript) {
    Batch batch;
    batch.rows = batch.local_valid = kRows;
    try {
      const torch::Tensor sum =
          loss.Sum(outputs, Zeros(SizesOf(form), TypeOf(form), device), batch,
                   /*label_smoothing=*/0);
      if (sum.dim() == 0 && sum.is_floating_point()) return absl::OkStatus();
      return absl::InvalidArgumentError(
          "the loss returns no floating-point numbers");
    } catch (const std::exception& error) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the loss, given the model's outputs ", Shape(outputs.sizes()),
          " and a target ", NameOf(TypeOf(form)), " ", Shape(SizesOf(form)),
          form.kind == losses::TargetForm::kValues && form.of_pixels()
              ? " (flattened for outputs that do not have four dimensions)"
              : "",
          ", failed: ", TorchSentence(error)));
    }
  }
  if (outputs.scalar_type() != torch::kFloat) {
    return absl::InvalidArgumentError(absl::StrCat(
        fed, "returned ", c10::toString(outputs.scalar_type()),
        " values; it must return float32: end its forward with .float()"));
  }
  if (!Fits(form, outputs.sizes())) {
    return absl::InvalidArgumentError(
        absl::StrCat(fed, "returned ", Shape(outputs.sizes()),
                     "; it must return ", Wanted(form)));
  }
  return absl::OkStatus();
}

}  // namespace millrace::trainer
