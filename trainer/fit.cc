#include "trainer/fit.h"

#include <ATen/Functions.h>
#include <torch/utils.h>

#include <exception>
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

torch::Tensor Zeros(const TargetForm& form, torch::Device device) {
  if (form.kind == TargetForm::kClasses) {
    return at::zeros({kRows},
                     torch::TensorOptions(torch::kLong).device(device));
  }
  return at::zeros({kRows, form.outputs},
                   torch::TensorOptions(torch::kFloat).device(device));
}

}  // namespace

absl::Status CheckFit(Classifier& model, Loss& loss, const ImageShape& shape,
                      const TargetForm& form, LossKind kind,
                      const std::string& name, torch::Device device) {
  const torch::NoGradGuard no_grad;
  const bool training = model.is_training();
  model.eval();
  const absl::Cleanup restore = [&] { model.train(training); };
  const std::vector<int64_t> input = {kRows, shape.channels, shape.height,
                                      shape.width};
  const std::string fed = absl::StrCat(
      "the model ", name, ", given float32 zeros of shape ", Shape(input),
      " (rows, channels, height, width) as the data "
      "have them, ");
  torch::Tensor outputs;
  try {
    outputs = model.forward(
        at::zeros(input, torch::TensorOptions(torch::kFloat).device(device))
            .contiguous(at::MemoryFormat::ChannelsLast));
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
          loss.Sum(outputs, Zeros(form, device), batch, /*label_smoothing=*/0);
      if (sum.dim() == 0 && sum.is_floating_point()) return absl::OkStatus();
      return absl::InvalidArgumentError(
          "the loss gives no floating-point numbers");
    } catch (const std::exception& error) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the loss, given the model's outputs ", Shape(outputs.sizes()),
          " and a target ",
          form.kind == TargetForm::kClasses
              ? absl::StrCat("int64 [", kRows, "]")
              : absl::StrCat("float32 [", kRows, ", ", form.outputs, "]"),
          ", failed: ", TorchSentence(error)));
    }
  }
  if (outputs.scalar_type() != torch::kFloat) {
    return absl::InvalidArgumentError(
        absl::StrCat(fed, "gave ", c10::toString(outputs.scalar_type()),
                     " values; it must give float32: end its forward with "
                     ".float()"));
  }
  const bool one_number = form.outputs == 1 && outputs.dim() == 1;
  if (!one_number && (outputs.dim() != 2 || outputs.size(1) != form.outputs)) {
    return absl::InvalidArgumentError(
        absl::StrCat(fed, "gave ", Shape(outputs.sizes()), "; it must give ",
                     Shape({kRows, form.outputs}), ", ",
                     form.classes > 0 ? "a number for each class of the data"
                                      : "as many numbers as the target has"));
  }
  return absl::OkStatus();
}

}  // namespace millrace
