#include "trainer/batch_reader.h"

#include <ATen/Functions.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/dtype.h"
#include "trainer/class_loss.h"

namespace millrace {
namespace {

std::string List(const OpenResponse& plan) {
  return absl::StrJoin(
      plan.tensors(), ", ", [](std::string* out, const TensorSpec& spec) {
        absl::StrAppend(out, spec.name(), " ", DTypeName(spec.dtype()), "[",
                        absl::StrJoin(spec.sample_shape(), ","), "]");
      });
}

bool IsRagged(const TensorSpec& spec) {
  for (int64_t dim : spec.sample_shape()) {
    if (dim < 0) return true;
  }
  return false;
}

// [channels, height, width] on the wire.
bool LiesInPlanes(const OpenResponse& plan, const TensorSpec& spec) {
  for (const Output& output : plan.resolved_spec().outputs()) {
    if (output.name() == spec.name()) return output.layout() == Output::NCHW;
  }
  return false;
}

// [height, width, channels] on the wire, given out as planes.
bool IsShownInPlanes(const TensorSpec& spec) {
  if (spec.view() == TensorSpec::VIEW_DEFAULT) {
    return spec.device_transform().mean_size() > 0;
  }
  return spec.view() == TensorSpec::VIEW_CHANNELS_FIRST;
}

}  // namespace

absl::StatusOr<BatchReader> BatchReader::Make(const OpenResponse& plan,
                                              const std::string& input,
                                              const std::string& target,
                                              LossKind loss,
                                              bool channels_last) {
  auto bad = [&plan](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, "; its tensors are: ", List(plan)));
  };
  const TensorSpec* x = nullptr;
  const TensorSpec* y = nullptr;
  for (const TensorSpec& spec : plan.tensors()) {
    const bool is_target =
        target.empty() ? spec.num_classes() > 0 : spec.name() == target;
    if (!is_target) continue;
    if (y != nullptr) {
      return bad(
          "the pipeline gives several tensors with classes; name one "
          "with --target");
    }
    y = &spec;
  }
  if (y == nullptr) {
    return bad(target.empty()
                   ? std::string("the pipeline gives no tensor with classes to "
                                 "learn; name what to learn with --target")
                   : absl::StrCat("the pipeline gives no tensor ", target));
  }
  const absl::StatusOr<TargetForm> form = FormOf(*y, loss);
  if (!form.ok()) {
    return bad(
        absl::StrCat("the target ", y->name(), " ", form.status().message()));
  }
  for (const TensorSpec& spec : plan.tensors()) {
    const bool is_input = input.empty()
                              ? &spec != y && spec.name() != "sample_index" &&
                                    spec.name() != "source_index" &&
                                    spec.name() != "valid" && x == nullptr
                              : spec.name() == input;
    if (is_input) x = &spec;
  }
  if (x == nullptr) {
    return bad(input.empty()
                   ? std::string("the pipeline gives nothing to learn from")
                   : absl::StrCat("the pipeline gives no tensor ", input));
  }
  if (IsRagged(*x)) {
    return bad(absl::StrCat("the input ", x->name(),
                            " has no fixed shape; models of this trainer need "
                            "one"));
  }
  BatchReader reader;
  reader.input_ = x->name();
  reader.target_ = y->name();
  reader.form_ = *form;
  reader.to_planes_ = !channels_last;
  const auto& shape = x->sample_shape();
  switch (shape.size()) {
    case 3:
      if (LiesInPlanes(plan, *x)) {
        reader.shape_ = {shape[0], shape[1], shape[2]};
      } else {
        reader.shape_ = {shape[2], shape[0], shape[1]};
        reader.channels_last_ = !IsShownInPlanes(*x);
      }
      break;
    case 2:
      reader.shape_ = {1, shape[0], shape[1]};
      break;
    case 1:
      reader.shape_ = {1, 1, shape[0]};
      break;
    default:
      return bad(absl::StrCat("the input ", x->name(), " has ", shape.size(),
                              " dimensions; models of this trainer take 1 to "
                              "3"));
  }
  return reader;
}

torch::Tensor BatchReader::Input(const Batch& batch) const {
  torch::Tensor x = batch.tensor(input_);
  if (x.scalar_type() == torch::kByte) x = x.to(torch::kFloat).div_(255);
  if (x.scalar_type() != torch::kFloat) x = x.to(torch::kFloat);
  if (channels_last_) x = x.permute({0, 3, 1, 2});
  if (x.dim() < 4) {
    x = x.reshape({x.size(0), shape_.channels, shape_.height, shape_.width});
  }
  if (to_planes_) x = x.contiguous();
  return x;
}

torch::Tensor BatchReader::Target(const Batch& batch) const {
  const torch::Tensor& y = batch.tensor(target_);
  switch (form_.kind) {
    case TargetForm::kClasses:
      return y.to(torch::kLong);
    case TargetForm::kOneHot: {
      const torch::Tensor labels = y.to(torch::kLong).unsqueeze(1);
      // Rows that hold no sample are of no class. Other labels outside of the
      // classes are refused, as cross entropy does.
      const torch::Tensor empty = labels.eq(kIgnoredLabel);
      return at::zeros({y.size(0), form_.classes},
                       y.options().dtype(torch::kFloat))
          .scatter_(1, labels.masked_fill(empty, 0),
                    empty.logical_not().to(torch::kFloat));
    }
    case TargetForm::kValues:
      break;
  }
  return y.to(torch::kFloat).reshape({y.size(0), form_.outputs});
}

}  // namespace millrace
