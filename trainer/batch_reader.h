// BatchReader tells which tensors of a batch the model learns from, and gives
// them in the form that models take: float32 [rows, channels, height, width]
// and int64 [rows], or float32 [rows, classes] of labels that the plan mixes.
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
#include "trainer/models/model.h"

namespace millrace {

class BatchReader {
 public:
  // `input` and `target` name tensors; empty: found as said above.
  // InvalidArgument lists the plan's tensors. Without `channels_last` images
  // are laid out in planes, whatever layout they come in.
  static absl::StatusOr<BatchReader> Make(const OpenResponse& plan,
                                          const std::string& input,
                                          const std::string& target,
                                          bool channels_last = true);

  torch::Tensor Input(const Batch& batch) const;
  torch::Tensor Target(const Batch& batch) const;

  const ImageShape& shape() const { return shape_; }
  int64_t classes() const { return classes_; }

 private:
  BatchReader() = default;

  std::string input_;
  std::string target_;
  bool soft_target_ = false;    // shares of classes
  bool channels_last_ = false;  // given as [rows, H, W, C]
  bool to_planes_ = false;
  ImageShape shape_;
  int64_t classes_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_TRAINER_BATCH_READER_H_
