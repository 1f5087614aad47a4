// Names of the losses, as --loss takes them: cross_entropy, bce_with_logits,
// mse or torchscript:FILE. Does not use libtorch.
//
// Pure functions.
//
//   MR_ASSIGN_OR_RETURN(LossName loss, ParseLossName("torchscript:huber.pt"));

#ifndef MILLRACE_TRAINER_LOSSES_LOSS_KIND_H_
#define MILLRACE_TRAINER_LOSSES_LOSS_KIND_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace::losses {

enum class LossKind { kCrossEntropy, kBceWithLogits, kMse, kTorchScript };

struct LossName {
  LossKind kind = LossKind::kCrossEntropy;
  std::string file;  // of kTorchScript
};

// InvalidArgument: an unknown name; the message lists the names.
absl::StatusOr<LossName> ParseLossName(absl::string_view text);

// "cross_entropy", ..., "torchscript".
absl::string_view LossText(LossKind kind);

}  // namespace millrace::losses

#endif  // MILLRACE_TRAINER_LOSSES_LOSS_KIND_H_
