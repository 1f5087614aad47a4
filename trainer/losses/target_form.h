// TargetForm is the form in which a tensor of the data is passed to a loss, and
// the number of outputs that a model then needs for a sample.
//
// | target in the data             | cross_entropy | bce_with_logits | mse    |
// |--------------------------------|---------------|-----------------|--------|
// | whole number with classes      | kClasses      | kOneHot         | refused|
// | float [classes], with classes  | kValues       | kValues         | kValues|
// | whole numbers, one a pixel     | kPixelClasses | kPixelClasses, without  |
// |                                |               | --classes kValues       |
// | anything else of a fixed shape | refused       | kValues         | kValues|
//
// A user's loss gets class indices and masks (FieldRole) as they are and
// everything else as values. Pure functions over the plan; no libtorch.
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

namespace millrace::losses {

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
  // Outputs of the model for a sample; with kPixelClasses channels * height *
  // width.
  int64_t outputs = 0;
  int64_t classes = 0;  // 0: the target declares none

  // For a target with values for each pixel: outputs of a model for each pixel,
  // which are the classes of kPixelClasses or the channels of an image; 0:
  // unknown. Then the target's sides; 0: it is no image.
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  bool of_pixels() const { return height > 0; }

  // The largest output is the predicted class, so accuracy is defined.
  bool judges_classes = false;
};

struct TargetOptions {
  LossKind loss = LossKind::kCrossEntropy;
  // Number of classes when the data do not declare it; 0: unknown.
  int64_t classes = 0;
  // The field's role is MASK.
  bool mask = false;
  // Samples of three dimensions are [channels, height, width].
  bool planes = false;
};

// InvalidArgument: the loss cannot learn it; the message continues the sentence
// "the target NAME ".
absl::StatusOr<TargetForm> FormOf(const TensorSpec& spec,
                                  const TargetOptions& options);

}  // namespace millrace::losses

#endif  // MILLRACE_TRAINER_LOSSES_TARGET_FORM_H_
