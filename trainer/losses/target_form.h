// TargetForm is how a tensor of the data is given to a loss, and how many
// numbers a model has to give for a sample then.
//
// | target in the data             | cross_entropy | bce_with_logits | mse    |
// |--------------------------------|---------------|-----------------|--------|
// | whole number with classes      | kClasses      | kOneHot         | refused|
// | float [classes], with classes  | kValues       | kValues         | kValues|
// | whole numbers, one a pixel     | kPixelClasses | kPixelClasses, without  |
// |                                |               | --classes kValues       |
// | anything else of a fixed shape | refused       | kValues         | kValues|
//
// A loss of a user's own is given class indices and masks (FieldRole) as they
// are and everything else as values. Pure functions over the plan; no libtorch.
//
//   MR_ASSIGN_OR_RETURN(TargetForm form,
//                       FormOf(spec, {.loss = LossKind::kMse}));

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
    kClasses,       // int64 [rows]
    kOneHot,        // class indices made float32 [rows, classes] of 0 and 1
    kPixelClasses,  // int64 [rows, height, width]
    kValues,        // float32 [rows, outputs], or of an image [rows, channels,
                    // height, width]: shares of classes, several yes and no at
                    // once, or numbers
  };
  Kind kind = kClasses;
  // Of the model for a sample: of kPixelClasses channels * height * width.
  int64_t outputs = 0;
  int64_t classes = 0;  // 0: the target knows none

  // Of a target with values for each pixel: what a model gives for each, the
  // classes of kPixelClasses or the channels of an image; 0: not known. Sides
  // of the target; 0: it is no image.
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  bool of_pixels() const { return height > 0; }

  // The largest output is the class that the model says: accuracy has a
  // meaning.
  bool judges_classes = false;
};

struct TargetOptions {
  LossKind loss = LossKind::kCrossEntropy;
  // Where the data do not say it; 0: nothing is said.
  int64_t classes = 0;
  // The field's role is MASK.
  bool mask = false;
  // Samples of three dimensions are [channels, height, width].
  bool planes = false;
};

// InvalidArgument: the loss cannot learn it; the sentence goes on after "the
// target NAME ".
absl::StatusOr<TargetForm> FormOf(const TensorSpec& spec,
                                  const TargetOptions& options);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_LOSSES_TARGET_FORM_H_
