// BatchReader tells which tensors of a batch the model learns from, and gives
// them in the form that models and losses take: float32 [rows, channels,
// height, width], and what losses/target_form.h says of targets.
// It goes by the plan, not by names: the target is the tensor that has classes,
// the input the first of the others.

#ifndef MILLRACE_TRAINER_BATCH_READER_H_
#define MILLRACE_TRAINER_BATCH_READER_H_

#include <torch/types.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/loader.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"
#include "trainer/losses/loss_kind.h"
#include "trainer/losses/target_form.h"
#include "trainer/models/model.h"

namespace millrace {

class BatchReader {
 public:
  // `input` and `target` name tensors; empty: found as said above.
  // InvalidArgument, also where the loss cannot learn the target, lists the
  // plan's tensors. Without `channels_last` images are laid out in planes,
  // whatever layout they come in.
  static absl::StatusOr<BatchReader> Make(const OpenResponse& plan,
                                          const std::string& input,
                                          const std::string& target,
                                          LossKind loss,
                                          bool channels_last = true);

  torch::Tensor Input(const Batch& batch) const;
  torch::Tensor Target(const Batch& batch) const;

  const ImageShape& shape() const { return shape_; }
  const TargetForm& form() const { return form_; }
  int64_t classes() const { return form_.classes; }

 private:
  BatchReader() = default;

  std::string input_;
  std::string target_;
  TargetForm form_;
  bool channels_last_ = false;  // given as [rows, H, W, C]
  bool to_planes_ = false;
  ImageShape shape_;
};

}  // namespace millrace

#endif  // MILLRACE_TRAINER_BATCH_READER_H_
