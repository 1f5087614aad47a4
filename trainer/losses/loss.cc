#include "trainer/losses/loss.h"

#include <ATen/Functions.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "trainer/class_loss.h"
#include "trainer/models/script_file.h"

namespace millrace::losses {
namespace {

class CrossEntropy final : public Loss {
 public:
  torch::Tensor Sum(const torch::Tensor& outputs, const torch::Tensor& target,
                    const Batch& batch, double label_smoothing) override {
    return trainer::SumOfLosses(outputs, trainer::Masked(target, batch),
                                label_smoothing);
  }
};

// Removes the rows without a sample for losses that do not know such rows.
// Finding them waits for the device, in the last batch of an epoch.
class OfWholeRows : public Loss {
 public:
  torch::Tensor Sum(const torch::Tensor& outputs, const torch::Tensor& target,
                    const Batch& batch, double) final {
    if (batch.local_valid == batch.rows || !batch.has("valid")) {
      return SumOf(outputs, target);
    }
    const torch::Tensor rows = batch.tensor("valid").nonzero().squeeze(1);
    // A zero that backward() can start from.
    if (rows.numel() == 0) return outputs.slice(0, 0, 0).sum();
    return SumOf(outputs.index_select(0, rows), target.index_select(0, rows));
  }

  // Every row counts.
  virtual torch::Tensor SumOf(const torch::Tensor& outputs,
                              const torch::Tensor& target) = 0;
};

// Outputs as float32 in the target's shape; broadcasting [rows] against [rows,
// 1] would be wrong silently.
torch::Tensor AsTarget(const torch::Tensor& outputs,
                       const torch::Tensor& target) {
  const bool fits = outputs.dim() == 4 && target.dim() == 4
                        ? outputs.sizes() == target.sizes()
                        : outputs.numel() == target.numel();
  TORCH_CHECK(fits, "the model returned ", outputs.sizes(), " for a target of ",
              target.sizes());
  return outputs.to(torch::kFloat).reshape(target.sizes());
}

// Sum over the rows of the mean over the counting values of each. Without
// `counts` all values count.
torch::Tensor SumOfMeans(const torch::Tensor& losses,
                         const torch::Tensor& counts) {
  if (!counts.defined()) return losses.flatten(1).mean(1).sum();
  return (losses.flatten(1) * counts.flatten(1))
      .sum(1)
      .div(counts.flatten(1).sum(1).clamp_min(1))
      .sum();
}

// Losses of single values.
class OfValues : public OfWholeRows {
 public:
  explicit OfValues(std::optional<int64_t> ignore_value)
      : ignore_value_(ignore_value) {}

  torch::Tensor SumOf(const torch::Tensor& outputs,
                      const torch::Tensor& target) final {
    if (!ignore_value_.has_value()) {
      return SumOfMeans(Losses(AsTarget(outputs, target), target),
                        torch::Tensor());
    }
    const torch::Tensor ignored = target.eq(*ignore_value_);
    return SumOfMeans(
        Losses(AsTarget(outputs, target), target.masked_fill(ignored, 0)),
        ignored.logical_not());
  }

 private:
  virtual torch::Tensor Losses(const torch::Tensor& outputs,
                               const torch::Tensor& target) = 0;

  const std::optional<int64_t> ignore_value_;
};

torch::Tensor BinaryCrossEntropy(const torch::Tensor& outputs,
                                 const torch::Tensor& target) {
  return at::binary_cross_entropy_with_logits(outputs, target, {}, {},
                                              at::Reduction::None);
}

class BceOfValues final : public OfValues {
 public:
  using OfValues::OfValues;

 private:
  torch::Tensor Losses(const torch::Tensor& outputs,
                       const torch::Tensor& target) override {
    // Reading the values would stop a device: there only the first batch is
    // checked.
    if (!seen_ || target.is_cpu()) {
      const auto [min, max] = at::aminmax(target);
      const double low = min.item<double>();
      const double high = max.item<double>();
      // NaN is the loss's concern.
      if (low < 0 || high > 1) {
        throw TargetError(absl::StrCat(
            "the target has the value ", low < 0 ? low : high,
            ", but --loss=bce_with_logits takes values from 0 to 1: for a mask "
            "of 0 and 255 end the pipeline with to_dtype { fields: "
            "\"NAME\" dtype: DTYPE_FLOAT32 scale: true }, for a mask of "
            "classes give --classes=N and, where a value is no class, "
            "--ignore_value"));
      }
      seen_ = true;
    }
    return BinaryCrossEntropy(outputs, target);
  }

  bool seen_ = false;
};

class Bce final : public OfWholeRows {
 public:
  explicit Bce(std::optional<int64_t> ignore_value) : values_(ignore_value) {}

 private:
  torch::Tensor SumOf(const torch::Tensor& outputs,
                      const torch::Tensor& target) override {
    if (target.dim() != 3 || target.scalar_type() != torch::kLong) {
      return values_.SumOf(outputs, target);
    }
    TORCH_CHECK(outputs.dim() == 4 && outputs.size(2) == target.size(1) &&
                    outputs.size(3) == target.size(2),
                "the model returned ", outputs.sizes(),
                " for a class in each pixel of ", target.sizes());
    // A yes or no for each class; pixels that do not count have none.
    const torch::Tensor counts = target.ne(trainer::kIgnoredLabel).unsqueeze(1);
    const torch::Tensor classes = target.unsqueeze(1).mul(counts);
    const torch::Tensor wanted =
        at::zeros_like(outputs, torch::TensorOptions(torch::kFloat))
            .scatter_(1, classes, counts.to(torch::kFloat));
    return SumOfMeans(
        BinaryCrossEntropy(outputs.to(torch::kFloat), wanted).mean(1),
        counts.squeeze(1));
  }

  BceOfValues values_;
};

class Mse final : public OfValues {
 public:
  using OfValues::OfValues;

 private:
  torch::Tensor Losses(const torch::Tensor& outputs,
                       const torch::Tensor& target) override {
    return (outputs - target).square();
  }
};

class ScriptLoss final : public OfWholeRows {
 public:
  explicit ScriptLoss(models::ScriptFile file) : file_(std::move(file)) {}

 private:
  torch::Tensor SumOf(const torch::Tensor& outputs,
                      const torch::Tensor& target) override {
    // Flattens an image target for flat outputs.
    const c10::IValue value = file_.Forward(
        {outputs,
         target.dim() == 4 && outputs.dim() != 4 ? target.flatten(1) : target});
    TORCH_CHECK(value.isTensor(), "the loss ", file_.path(),
                " returned no tensor but a value of type ", value.tagKind());
    const torch::Tensor& loss = value.toTensor();
    const int64_t rows = outputs.size(0);
    if (loss.dim() == 0) return loss * static_cast<double>(rows);
    TORCH_CHECK(loss.dim() == 1 && loss.size(0) == rows, "the loss ",
                file_.path(), " returned ", loss.sizes(), " for ", rows,
                " rows; it must return one number per row, or their mean as "
                "one number without dimensions");
    return loss.sum();
  }

  models::ScriptFile file_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Loss>> MakeLoss(
    const LossName& name, torch::Device device,
    std::optional<int64_t> ignore_value) {
  switch (name.kind) {
    case LossKind::kCrossEntropy:
      return std::make_unique<CrossEntropy>();
    case LossKind::kBceWithLogits:
      return std::make_unique<Bce>(ignore_value);
    case LossKind::kMse:
      return std::make_unique<Mse>(ignore_value);
    case LossKind::kTorchScript:
      break;
  }
  MR_ASSIGN_OR_RETURN(models::ScriptFile file,
                      models::ScriptFile::Load(name.file, device));
  if (file.module().parameters().size() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the loss ", name.file,
        " has weights of its own, which are not trained; make them buffers "
        "(register_buffer), or move them into the model"));
  }
  return std::make_unique<ScriptLoss>(std::move(file));
}

}  // namespace millrace::losses
