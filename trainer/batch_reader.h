// BatchReader tells which tensors of a batch the model learns from, and gives
// them in the form that models and losses take: float32 [rows, channels,
// height, width], and what losses/target_form.h says of targets. Models of a
// user's file are given vectors, tokens and whatever else is no image in the
// shape that the data have.
// It goes by the plan, not by names: the target is the tensor that has classes,
// else the one that is a mask; the input the one tensor that is left, or the
// one image among several. Where that leaves a choice it takes none.

#ifndef MILLRACE_TRAINER_BATCH_READER_H_
#define MILLRACE_TRAINER_BATCH_READER_H_

#include <c10/util/Exception.h>
#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/loader.h"
#include "proto/data_service.pb.h"
#include "proto/names.h"
#include "trainer/losses/loss_kind.h"
#include "trainer/losses/target_form.h"
#include "trainer/models/model.h"

namespace millrace {

class BatchReader {
 public:
  struct Options {
    // Names of tensors; empty: found as said above.
    std::string input;
    std::string target;
    LossKind loss = LossKind::kCrossEntropy;
    // Of the target, where the data do not say it; 0: nothing is said.
    int64_t classes = 0;
    // Pixels of the target with this value do not count.
    std::optional<int64_t> ignore_value;
    // Off: images are laid out in planes, whatever layout they come in.
    bool channels_last = true;
    // For a model of a user's file: only samples of three dimensions are taken
    // for images; the others keep their shape. Whole numbers and booleans come
    // as int64 then, other numbers as float32.
    bool as_stored = false;
  };

  // InvalidArgument, also where the loss cannot learn the target or several
  // tensors may be the input, lists the plan's tensors.
  static absl::StatusOr<BatchReader> Make(const OpenResponse& plan,
                                          const Options& options);

  // Names of the tensors.
  const std::string& input() const { return input_; }
  const std::string& target() const { return target_; }

  torch::Tensor Input(const Batch& batch) const;
  torch::Tensor Target(const Batch& batch) const;

  // `error` of Target(), or of a loss that was given it: a label is none of the
  // classes. InvalidArgument: "<what>: ...", with the flag that helps; has the
  // mark of UsageError() where --classes said how many there are.
  absl::Status LabelError(const c10::IndexError& error,
                          absl::string_view what) const;

  // As the trainer's own models see a sample.
  const ImageShape& shape() const { return shape_; }
  // As Input() gives it.
  const InputForm& form_of_input() const { return input_form_; }
  const TargetForm& form() const { return form_; }
  int64_t classes() const { return form_.classes; }
  // Of the target's classes; empty: the dataset names none.
  const std::vector<std::string>& class_names() const { return class_names_; }
  std::optional<int64_t> ignore_value() const { return ignore_value_; }

 private:
  BatchReader() = default;

  std::string input_;
  std::string target_;
  std::vector<std::string> class_names_;
  TargetForm form_;
  std::optional<int64_t> ignore_value_;
  bool classes_given_ = false;         // by Options, not by the data
  bool channels_last_ = false;         // given as [rows, H, W, C]
  bool target_channels_last_ = false;  // an image as a target, likewise
  bool to_planes_ = false;
  ImageShape shape_;
  InputForm input_form_;
};

}  // namespace millrace

#endif  // MILLRACE_TRAINER_BATCH_READER_H_
