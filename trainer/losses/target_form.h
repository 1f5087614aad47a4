// TargetForm is how a tensor of the data is given to a loss, and how many
// numbers a model has to give for a sample then.
//
// | target in the data             | cross_entropy | bce_with_logits | mse    |
// |--------------------------------|---------------|-----------------|--------|
// | whole number with classes      | kClasses      | kOneHot         | refused|
// | float [classes], with classes  | kValues       | kValues         | kValues|
// | anything else of a fixed shape | refused       | kValues         | kValues|
//
// A loss of a user's own is given class indices as they are and everything else
// as values. Pure functions over the plan; no libtorch.
//
//   MR_ASSIGN_OR_RETURN(TargetForm form, FormOf(spec, LossKind::kMse));

#ifndef MILLRACE_TRAINER_LOSSES_TARGET_FORM_H_
#define MILLRACE_TRAINER_LOSSES_TARGET_FORM_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"
#include "trainer/losses/loss_kind.h"

namespace millrace {

struct TargetForm {
  enum Kind {
    kClasses,  // int64 [rows]
    kOneHot,   // class indices made float32 [rows, classes] of 0 and 1
    kValues,   // float32 [rows, outputs]: shares of classes, several yes and no
               // at once, or numbers
  };
  Kind kind = kClasses;
  int64_t outputs = 0;  // of the model for a sample
  int64_t classes = 0;  // 0: the target knows none

  // The largest output is the class that the model says: accuracy has a
  // meaning.
  bool judges_classes = false;
};

// InvalidArgument: the loss cannot learn it; the sentence goes on after "the
// target NAME ".
absl::StatusOr<TargetForm> FormOf(const TensorSpec& spec, LossKind loss);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_LOSSES_TARGET_FORM_H_
