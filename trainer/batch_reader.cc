#include "trainer/batch_reader.h"

#include <ATen/Functions.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/usage_error.h"
#include "proto/dtype.h"
#include "trainer/class_loss.h"

namespace millrace::trainer {
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

// The field is a mask to the transforms.
bool IsMask(const OpenResponse& plan, const TensorSpec& spec) {
  for (const Output& output : plan.resolved_spec().outputs()) {
    if (output.name() != spec.name()) continue;
    for (const FieldRole& role : plan.resolved_spec().field_roles()) {
      if (role.field() == output.field()) {
        return role.role() == FieldRole::MASK;
      }
    }
  }
  return false;
}

// Candidates for the input when no flag names it: tensors that are neither the
// target nor facts of the plan about rows.
std::vector<const TensorSpec*> PossibleInputs(const OpenResponse& plan,
                                              const TensorSpec* target) {
  std::vector<const TensorSpec*> all, inputs, images;
  for (const TensorSpec& spec : plan.tensors()) {
    if (&spec == target || spec.name() == "sample_index" ||
        spec.name() == "source_index" || spec.name() == "valid") {
      continue;
    }
    all.push_back(&spec);
    if (spec.num_classes() > 0 || IsMask(plan, spec)) continue;
    inputs.push_back(&spec);
    if (spec.sample_shape_size() == 3) images.push_back(&spec);
  }
  if (images.size() == 1) return images;
  return inputs.empty() ? all : inputs;
}

// What to do when no model of the trainer takes the input.
std::string OtherInputs(const OpenResponse& plan) {
  std::vector<std::string> flags;
  for (const TensorSpec& spec : plan.tensors()) {
    const int dimensions = spec.sample_shape_size();
    if (IsRagged(spec) || dimensions < 1 || dimensions > 3) continue;
    flags.push_back(absl::StrCat("--input=", spec.name()));
  }
  if (flags.empty()) {
    return "choose --model=torchscript:FILE, a module that takes such samples, "
           "or another pipeline";
  }
  return absl::StrCat("give ", absl::StrJoin(flags, " or "));
}

// The form in which a model of a user's file gets tensors that are no images.
torch::ScalarType StoredForm(DType dtype) {
  return IsInteger(dtype) || dtype == DTYPE_BOOL ? torch::kLong : torch::kFloat;
}

// Rows that hold no sample; undefined: there are none.
torch::Tensor EmptyRows(const Batch& batch) {
  if (batch.local_valid == batch.rows || !batch.has("valid")) return {};
  return batch.tensor("valid").logical_not();
}

// On a device, where the labels of later batches are not checked, a -100 of the
// data becomes a label that no loss leaves out.
torch::Tensor Counting(const torch::Tensor& labels, bool checked) {
  if (!checked || labels.is_cpu()) return labels;
  return labels.masked_fill(labels.eq(kIgnoredLabel), -1);
}

// " (sample 17)"; empty: the batch does not tell.
std::string SampleText(const Batch& batch, int64_t row) {
  if (!batch.has("sample_index")) return "";
  const torch::Tensor& samples = batch.tensor("sample_index");
  if (samples.dim() != 1 || row >= samples.size(0)) return "";
  return absl::StrCat(" (sample ", samples[row].item<int64_t>(), ")");
}

}  // namespace

absl::StatusOr<BatchReader> BatchReader::Make(const OpenResponse& plan,
                                              const Options& options) {
  const std::string& input = options.input;
  const std::string& target = options.target;
  auto bad = [&plan](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, "; its tensors are: ", List(plan)));
  };
  const TensorSpec* x = nullptr;
  const TensorSpec* y = nullptr;
  // No name: the tensor with classes; if there is none, a mask.
  bool by_classes = false;
  for (const TensorSpec& spec : plan.tensors()) {
    by_classes = by_classes || spec.num_classes() > 0;
  }
  for (const TensorSpec& spec : plan.tensors()) {
    const bool is_target = !target.empty() ? spec.name() == target
                           : by_classes    ? spec.num_classes() > 0
                                           : IsMask(plan, spec);
    if (!is_target) continue;
    if (y != nullptr) {
      return bad(
          "the pipeline outputs several tensors with classes, or several "
          "masks; "
          "name one with --target");
    }
    y = &spec;
  }
  if (y == nullptr) {
    return bad(
        target.empty()
            ? std::string("the pipeline outputs no tensor with classes and "
                          "no mask; name the target with "
                          "--target=NAME, and the number of its classes with "
                          "--classes=N "
                          "if it holds class indices")
            : absl::StrCat("the pipeline outputs no tensor ", target));
  }
  const absl::StatusOr<losses::TargetForm> form =
      losses::FormOf(*y, {.loss = options.loss,
                          .classes = options.classes,
                          .mask = IsMask(plan, *y),
                          .planes = LiesInPlanes(plan, *y)});
  if (!form.ok()) {
    return bad(
        absl::StrCat("the target ", y->name(), " ", form.status().message()));
  }
  if (options.ignore_value.has_value() &&
      (!form->of_pixels() || (options.loss == losses::LossKind::kTorchScript &&
                              form->kind == losses::TargetForm::kValues))) {
    return bad(absl::StrCat(
        "--ignore_value=", *options.ignore_value,
        " applies to targets with a value for each pixel and a built-in "
        "loss; the target ",
        y->name(), " is not of this kind"));
  }
  if (input.empty()) {
    const std::vector<const TensorSpec*> inputs = PossibleInputs(plan, y);
    if (inputs.size() > 1) {
      return bad(absl::StrCat(
          "the pipeline outputs several tensors that may be the input: ",
          absl::StrJoin(inputs, ", ",
                        [](std::string* out, const TensorSpec* spec) {
                          out->append(spec->name());
                        }),
          "; name one with --input=NAME, or drop the others with "
          "--outputs"));
    }
    if (!inputs.empty()) x = inputs[0];
  }
  for (const TensorSpec& spec : plan.tensors()) {
    if (!input.empty() && spec.name() == input) x = &spec;
  }
  if (x == nullptr) {
    return bad(input.empty()
                   ? std::string(
                         "the pipeline outputs no tensor that may be the input")
                   : absl::StrCat("the pipeline outputs no tensor ", input));
  }
  if (IsRagged(*x)) {
    return bad(absl::StrCat("the input ", x->name(),
                            " has no fixed shape; models need "
                            "one"));
  }
  BatchReader reader;
  reader.input_ = x->name();
  reader.target_ = y->name();
  reader.class_names_.assign(y->class_names().begin(), y->class_names().end());
  reader.form_ = *form;
  reader.ignore_value_ = options.ignore_value;
  reader.classes_given_ = options.classes > 0 && y->num_classes() == 0;
  reader.checks_labels_ = options.loss != losses::LossKind::kTorchScript &&
                          form->classes > 0 &&
                          form->kind != losses::TargetForm::kValues;
  reader.to_planes_ = !options.channels_last;
  reader.target_channels_last_ = y->sample_shape_size() == 3 &&
                                 !LiesInPlanes(plan, *y) &&
                                 !IsShownInPlanes(*y);
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
      if (options.as_stored) break;
      return bad(absl::StrCat(
          "the input ", x->name(), " ",
          shape.empty() ? std::string("is one number for each sample")
                        : absl::StrCat("has ", shape.size(), " dimensions"),
          ", but built-in models take samples of 1 to 3 dimensions; ",
          OtherInputs(plan)));
  }
  if (options.as_stored && shape.size() != 3) {
    reader.input_form_ = {
        {shape.begin(), shape.end()},
        StoredForm(x->has_device_transform() ? x->device_transform().dtype()
                                             : x->dtype())};
  } else {
    const models::ImageShape& image = reader.shape_;
    reader.input_form_ = {{image.channels, image.height, image.width},
                          torch::kFloat};
  }
  return reader;
}

torch::Tensor BatchReader::Input(const Batch& batch) const {
  torch::Tensor x = batch.tensor(input_);
  if (input_form_.type == torch::kFloat && x.scalar_type() == torch::kByte) {
    x = x.to(torch::kFloat).div_(255);
  }
  x = x.to(input_form_.type);
  if (channels_last_) x = x.permute({0, 3, 1, 2});
  std::vector<int64_t> sizes = {x.size(0)};
  sizes.insert(sizes.end(), input_form_.sizes.begin(), input_form_.sizes.end());
  if (x.sizes() != at::IntArrayRef(sizes)) x = x.reshape(sizes);
  if (to_planes_) x = x.contiguous();
  return x;
}

absl::Status BatchReader::LabelError(const LabelOutsideClasses& error,
                                     absl::string_view what) const {
  const absl::Status status =
      absl::InvalidArgumentError(absl::StrCat(what, ": ", error.what()));
  return classes_given_ ? UsageError(status) : status;
}

void BatchReader::CheckLabels(const torch::Tensor& labels,
                              const torch::Tensor& ignored,
                              const Batch& batch) const {
  if (!checks_labels_ || labels.numel() == 0) return;
  if (!labels.is_cpu() && std::exchange(labels_seen_, true)) return;
  torch::Tensor counted = labels;
  if (ignored.defined()) counted = counted.masked_fill(ignored, 0);
  if (const torch::Tensor empty = EmptyRows(batch); empty.defined()) {
    counted = counted.masked_fill(
        labels.dim() == 3 ? empty.view({-1, 1, 1}) : empty, 0);
  }
  const auto [min, max] = at::aminmax(counted);
  if (min.item<int64_t>() >= 0 && max.item<int64_t>() < classes()) return;
  const torch::Tensor place =
      counted.lt(0).logical_or(counted.ge(classes())).nonzero()[0].cpu();
  const int64_t row = place[0].item<int64_t>();
  torch::Tensor label = labels;
  for (int64_t i = 0; i < place.numel(); ++i) {
    label = label[place[i].item<int64_t>()];
  }
  const int64_t value = label.item<int64_t>();
  std::string help =
      value < 0 ? "class indices begin with 0: correct the labels of the "
                  "dataset, or name another --target"
      : classes_given_
          ? "give --classes a number above the largest label"
          : absl::StrCat(
                "the dataset declares ", classes(),
                " classes: correct its labels, or name another --target");
  if (form_.of_pixels()) {
    help = absl::StrCat(
        "if that value marks pixels without a class, give it to "
        "--ignore_value, otherwise ",
        help);
  } else if (value == kIgnoredLabel) {
    help = absl::StrCat(kIgnoredLabel,
                        " marks only the rows of a batch that hold no sample: "
                        "leave samples without a class out of the dataset, or "
                        "correct their labels");
  }
  throw LabelOutsideClasses(
      absl::StrCat("the target ", target_, " has the label ", value, " in row ",
                   row, SampleText(batch, row), ", outside of its ", classes(),
                   " classes, 0 to ", classes() - 1, "; ", help));
}

torch::Tensor BatchReader::Target(const Batch& batch) const {
  torch::Tensor y = batch.tensor(target_);
  switch (form_.kind) {
    case losses::TargetForm::kClasses: {
      const torch::Tensor labels = y.to(torch::kLong);
      CheckLabels(labels, torch::Tensor(), batch);
      return Counting(labels, checks_labels_);
    }
    case losses::TargetForm::kOneHot: {
      const torch::Tensor labels = y.to(torch::kLong);
      CheckLabels(labels, torch::Tensor(), batch);
      const torch::Tensor zeros = at::zeros({y.size(0), form_.classes},
                                            y.options().dtype(torch::kFloat));
      // Rows without a sample have no class.
      const torch::Tensor empty = EmptyRows(batch);
      if (!empty.defined()) return zeros.scatter_(1, labels.unsqueeze(1), 1);
      return zeros.scatter_(1, labels.masked_fill(empty, 0).unsqueeze(1),
                            empty.logical_not().to(torch::kFloat).unsqueeze(1));
    }
    case losses::TargetForm::kPixelClasses: {
      // One channel, at any position.
      const torch::Tensor classes =
          y.to(torch::kLong).reshape({y.size(0), form_.height, form_.width});
      if (!ignore_value_.has_value()) {
        CheckLabels(classes, torch::Tensor(), batch);
        return Counting(classes, checks_labels_);
      }
      const torch::Tensor ignored = classes.eq(*ignore_value_);
      CheckLabels(classes, ignored, batch);
      return Counting(classes, checks_labels_)
          .masked_fill(ignored, kIgnoredLabel);
    }
    case losses::TargetForm::kValues:
      break;
  }
  y = y.to(torch::kFloat);
  if (!form_.of_pixels()) return y.reshape({y.size(0), form_.outputs});
  if (target_channels_last_) y = y.permute({0, 3, 1, 2});
  return y.reshape({y.size(0), form_.channels, form_.height, form_.width});
}

}  // namespace millrace::trainer
