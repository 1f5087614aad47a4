// BatchReader chooses the input and the target of a model among the tensors of
// a batch and converts them to the form that models and losses take: inputs are
// float32 [rows, channels, height, width]; losses/target_form.h describes
// targets. A model of a user's file gets vectors, tokens and other tensors that
// are no images in the shape of the data.
//
// It decides by the plan, not by names. The target is the tensor with classes;
// if there is none, the mask. The input is the one remaining tensor, or the one
// image among several. When that is ambiguous it refuses and does not guess.
//
// Not thread-safe: Target() notes that it has checked labels on a device.

#ifndef MILLRACE_TRAINER_BATCH_READER_H_
#define MILLRACE_TRAINER_BATCH_READER_H_

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
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

namespace millrace::trainer {

// A row with a sample has a label that is no number of a class. The message
// names the target, the label, the row and what to do.
class LabelOutsideClasses : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class BatchReader {
 public:
  struct Options {
    // Names of tensors; empty: chosen as described above.
    std::string input;
    std::string target;
    losses::LossKind loss = losses::LossKind::kCrossEntropy;
    // Number of the target's classes when the data do not declare it; 0:
    // unknown.
    int64_t classes = 0;
    // Pixels of the target with this value do not count.
    std::optional<int64_t> ignore_value;
    // false: images are converted to planes, in whatever layout they arrive.
    bool channels_last = true;
    // For a model of a user's file: only samples of three dimensions are
    // images; others keep their shape. Whole numbers and booleans are then
    // converted to int64, other numbers to float32.
    bool as_stored = false;
  };

  // InvalidArgument: the loss cannot learn the target, or several tensors may
  // be the input; lists the plan's tensors.
  static absl::StatusOr<BatchReader> Make(const OpenResponse& plan,
                                          const Options& options);

  // Names of the tensors.
  const std::string& input() const { return input_; }
  const std::string& target() const { return target_; }

  torch::Tensor Input(const Batch& batch) const;
  // For a built-in loss throws LabelOutsideClasses for a class index of a row
  // with a sample that is below 0 or not below classes(); -100 is no exception,
  // because it marks only rows without a sample. Reading the labels would stop
  // a device, so there only the first batch is checked; libtorch's kernels fail
  // for the labels of later batches. A user's loss gets every label as it is.
  torch::Tensor Target(const Batch& batch) const;

  // For an `error` of Target(). InvalidArgument: "<what>: ...". It is a
  // UsageError() when --classes gave the number of classes.
  absl::Status LabelError(const LabelOutsideClasses& error,
                          absl::string_view what) const;

  // A sample's shape for the trainer's own models.
  const models::ImageShape& shape() const { return shape_; }
  // The form of Input()'s result.
  const models::InputForm& form_of_input() const { return input_form_; }
  const losses::TargetForm& form() const { return form_; }
  int64_t classes() const { return form_.classes; }
  // Names of the target's classes; empty: the dataset has none.
  const std::vector<std::string>& class_names() const { return class_names_; }
  std::optional<int64_t> ignore_value() const { return ignore_value_; }

 private:
  BatchReader() = default;

  // Throws LabelOutsideClasses. `labels`: int64 of any shape with the batch's
  // rows. `ignored`: labels that do not count; may be undefined.
  void CheckLabels(const torch::Tensor& labels, const torch::Tensor& ignored,
                   const Batch& batch) const;

  std::string input_;
  std::string target_;
  std::vector<std::string> class_names_;
  losses::TargetForm form_;
  std::optional<int64_t> ignore_value_;
  bool classes_given_ = false;         // by Options, not by the data
  bool checks_labels_ = false;         // class indices for a built-in loss
  mutable bool labels_seen_ = false;   // a batch on a device was checked
  bool channels_last_ = false;         // input is [rows, H, W, C]
  bool target_channels_last_ = false;  // the same for an image as target
  bool to_planes_ = false;
  models::ImageShape shape_;
  models::InputForm input_form_;
};

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_BATCH_READER_H_
