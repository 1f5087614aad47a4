#include "trainer/losses/loss.h"

#include <ATen/Functions.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "trainer/class_loss.h"
#include "trainer/models/script_file.h"

namespace millrace {
namespace {

class CrossEntropy final : public Loss {
 public:
  torch::Tensor Sum(const torch::Tensor& outputs, const torch::Tensor& target,
                    const Batch& batch, double label_smoothing) override {
    return SumOfLosses(outputs, Masked(target, batch), label_smoothing);
  }
};

// Losses that know nothing of rows without a sample are not shown any. Looking
// for them waits for the device, in the last batch of an epoch.
class OfWholeRows : public Loss {
 public:
  torch::Tensor Sum(const torch::Tensor& outputs, const torch::Tensor& target,
                    const Batch& batch, double) final {
    if (batch.local_valid == batch.rows || !batch.has("valid")) {
      return SumOf(outputs, target);
    }
    const torch::Tensor rows = batch.tensor("valid").nonzero().squeeze(1);
    // Nothing, but something that backward() can start from.
    if (rows.numel() == 0) return outputs.slice(0, 0, 0).sum();
    return SumOf(outputs.index_select(0, rows), target.index_select(0, rows));
  }

 private:
  virtual torch::Tensor SumOf(const torch::Tensor& outputs,
                              const torch::Tensor& target) = 0;
};

// [rows, values]; broadcasting [rows] against [rows, 1] would go wrong
// silently.
torch::Tensor AsTarget(const torch::Tensor& outputs,
                       const torch::Tensor& target) {
  TORCH_CHECK(outputs.numel() == target.numel(), "the model gave ",
              outputs.sizes(), " for a target of ", target.sizes());
  return outputs.to(torch::kFloat).reshape(target.sizes());
}

class BceWithLogits final : public OfWholeRows {
  torch::Tensor SumOf(const torch::Tensor& outputs,
                      const torch::Tensor& target) override {
    return at::binary_cross_entropy_with_logits(
               AsTarget(outputs, target), target, {}, {}, at::Reduction::None)
        .mean(1)
        .sum();
  }
};

class Mse final : public OfWholeRows {
  torch::Tensor SumOf(const torch::Tensor& outputs,
                      const torch::Tensor& target) override {
    return (AsTarget(outputs, target) - target).square().mean(1).sum();
  }
};

class ScriptLoss final : public OfWholeRows {
 public:
  explicit ScriptLoss(ScriptFile file) : file_(std::move(file)) {}

 private:
  torch::Tensor SumOf(const torch::Tensor& outputs,
                      const torch::Tensor& target) override {
    const c10::IValue value = file_.Forward({outputs, target});
    TORCH_CHECK(value.isTensor(), "the loss ", file_.path(),
                " gave no tensor but a value of type ", value.tagKind());
    const torch::Tensor& loss = value.toTensor();
    const int64_t rows = outputs.size(0);
    if (loss.dim() == 0) return loss * static_cast<double>(rows);
    TORCH_CHECK(loss.dim() == 1 && loss.size(0) == rows, "the loss ",
                file_.path(), " gave ", loss.sizes(), " for ", rows,
                " rows; it must give one number a row, or their mean as one "
                "number without dimensions");
    return loss.sum();
  }

  ScriptFile file_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Loss>> MakeLoss(const LossName& name,
                                               torch::Device device) {
  switch (name.kind) {
    case LossKind::kCrossEntropy:
      return std::make_unique<CrossEntropy>();
    case LossKind::kBceWithLogits:
      return std::make_unique<BceWithLogits>();
    case LossKind::kMse:
      return std::make_unique<Mse>();
    case LossKind::kTorchScript:
      break;
  }
  MR_ASSIGN_OR_RETURN(ScriptFile file, ScriptFile::Load(name.file, device));
  if (file.module().parameters().size() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the loss ", name.file,
        " has weights of its own, which nothing would train; make them buffers "
        "(register_buffer), or put them into the model"));
  }
  return std::make_unique<ScriptLoss>(std::move(file));
}

}  // namespace millrace
