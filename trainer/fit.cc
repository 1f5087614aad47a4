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

namespace millrace {
namespace {

// Two, so that a model which knows one batch size only, or mixes rows, is seen.
constexpr int64_t kRows = 2;

std::string Shape(c10::IntArrayRef sizes) {
  return absl::StrCat("[", absl::StrJoin(sizes, ", "), "]");
}

// Of a batch of targets.
std::vector<int64_t> SizesOf(const TargetForm& form) {
  if (form.kind == TargetForm::kClasses) return {kRows};
  if (form.kind == TargetForm::kPixelClasses) {
    return {kRows, form.height, form.width};
  }
  if (!form.of_pixels()) return {kRows, form.outputs};
  return {kRows, form.channels, form.height, form.width};
}

torch::ScalarType TypeOf(const TargetForm& form) {
  return form.kind == TargetForm::kClasses ||
                 form.kind == TargetForm::kPixelClasses
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

// Whether the trainer's losses take outputs of this shape.
bool Fits(const TargetForm& form, c10::IntArrayRef outputs) {
  if (form.of_pixels() && outputs.size() == 4) {
    return outputs.slice(1) ==
           c10::IntArrayRef({form.channels, form.height, form.width});
  }
  if (form.kind == TargetForm::kPixelClasses) return false;
  if (form.outputs == 1 && outputs.size() == 1) return true;
  return outputs.size() == 2 && outputs[1] == form.outputs;
}

std::string Wanted(const TargetForm& form) {
  const std::string of_pixels =
      form.of_pixels() ? Shape({kRows, form.channels, form.height, form.width})
                       : "";
  if (form.kind == TargetForm::kPixelClasses) {
    return absl::StrCat(of_pixels, ", a number for each class of each pixel");
  }
  return absl::StrCat(Shape({kRows, form.outputs}),
                      of_pixels.empty() ? "" : " or ", of_pixels, ", ",
                      form.classes > 0 ? "a number for each class of the data"
                                       : "as many numbers as the target has");
}

}  // namespace

absl::Status CheckFit(Classifier& model, Loss& loss, const InputForm& input,
                      const TargetForm& form, LossKind kind,
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
      " as the data have them, ");
  torch::Tensor outputs;
  try {
    torch::Tensor zeros = Zeros(sizes, input.type, device);
    if (sizes.size() == 4) {
      zeros = zeros.contiguous(at::MemoryFormat::ChannelsLast);
    }
    outputs = model.forward(std::move(zeros));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(
        fed, "failed: ", TorchSentence(error),
        "; choose a preset or --input with the shape that it takes, or a model "
        "for this one"));
  }
  if (!outputs.defined()) {
    return absl::InvalidArgumentError(absl::StrCat(fed, "gave nothing"));
  }
  if (outputs.dim() < 1 || outputs.size(0) != kRows) {
    return absl::InvalidArgumentError(absl::StrCat(
        fed, "gave ", Shape(outputs.sizes()), "; it must give ", kRows,
        " rows for ", kRows,
        ": was it traced with a fixed batch size? Use sizes such as -1 in "
        "view() or save torch.jit.script(module)"));
  }
  if (kind == LossKind::kTorchScript) {
    Batch batch;
    batch.rows = batch.local_valid = kRows;
    try {
      const torch::Tensor sum =
          loss.Sum(outputs, Zeros(SizesOf(form), TypeOf(form), device), batch,
                   /*label_smoothing=*/0);
      if (sum.dim() == 0 && sum.is_floating_point()) return absl::OkStatus();
      return absl::InvalidArgumentError(
          "the loss gives no floating-point numbers");
    } catch (const std::exception& error) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the loss, given the model's outputs ", Shape(outputs.sizes()),
          " and a target ", NameOf(TypeOf(form)), " ", Shape(SizesOf(form)),
          form.kind == TargetForm::kValues && form.of_pixels()
              ? " (in a row for outputs that are not of four dimensions)"
              : "",
          ", failed: ", TorchSentence(error)));
    }
  }
  if (outputs.scalar_type() != torch::kFloat) {
    return absl::InvalidArgumentError(
        absl::StrCat(fed, "gave ", c10::toString(outputs.scalar_type()),
                     " values; it must give float32: end its forward with "
                     ".float()"));
  }
  if (!Fits(form, outputs.sizes())) {
    return absl::InvalidArgumentError(absl::StrCat(
        fed, "gave ", Shape(outputs.sizes()), "; it must give ", Wanted(form)));
  }
  return absl::OkStatus();
}

}  // namespace millrace
