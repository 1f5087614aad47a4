#include "trainer/losses/loss_kind.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace millrace::losses {

absl::StatusOr<LossName> ParseLossName(absl::string_view text) {
  for (const LossKind kind :
       {LossKind::kCrossEntropy, LossKind::kBceWithLogits, LossKind::kMse}) {
    if (text == LossText(kind)) return LossName{.kind = kind};
  }
  absl::string_view file = text;
  if (absl::ConsumePrefix(&file, "torchscript:") && !file.empty()) {
    return LossName{.kind = LossKind::kTorchScript, .file = std::string(file)};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("is \"", text,
                   "\"; choose cross_entropy, bce_with_logits, mse or "
                   "torchscript:FILE"));
}

absl::string_view LossText(LossKind kind) {
  switch (kind) {
    case LossKind::kCrossEntropy:
      return "cross_entropy";
    case LossKind::kBceWithLogits:
      return "bce_with_logits";
    case LossKind::kMse:
      return "mse";
    case LossKind::kTorchScript:
      return "torchscript";
  }
  return "unknown";
}

}  // namespace millrace::losses
