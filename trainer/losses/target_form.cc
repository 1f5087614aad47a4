#include "trainer/losses/target_form.h"

#include "absl/strings/str_cat.h"
#include "proto/dtype.h"

namespace millrace::losses {
namespace {

// Max outputs; a layer with more is a mistake in the data.
constexpr int64_t kMaxOutputs = 1 << 24;

bool IsFloat(DType dtype) {
  return dtype == DTYPE_FLOAT32 || dtype == DTYPE_FLOAT64 ||
         dtype == DTYPE_FLOAT16 || dtype == DTYPE_BFLOAT16;
}

absl::Status Refuse(absl::string_view why) {
  return absl::InvalidArgumentError(why);
}

// The type after the device transform.
DType GivenType(const TensorSpec& spec) {
  return spec.has_device_transform() ? spec.device_transform().dtype()
                                     : spec.dtype();
}

// Sides and channels of an image; 0 for other samples.
void SetPixels(const TensorSpec& spec, bool planes, TargetForm& form) {
  const auto& shape = spec.sample_shape();
  if (shape.size() != 2 && shape.size() != 3) return;
  const int first = shape.size() == 3 && planes ? 1 : 0;
  form.height = shape[first];
  form.width = shape[first + 1];
  form.channels = shape.size() == 2 ? 1 : shape[planes ? 0 : 2];
}

}  // namespace

absl::StatusOr<TargetForm> FormOf(const TensorSpec& spec,
                                  const TargetOptions& options) {
  const LossKind loss = options.loss;
  if (spec.num_classes() > 0 && options.classes > 0 &&
      spec.num_classes() != options.classes) {
    return Refuse(absl::StrCat("has ", spec.num_classes(),
                               " classes, but --classes is ", options.classes,
                               "; remove the flag"));
  }
  const int64_t classes =
      spec.num_classes() > 0 ? spec.num_classes() : options.classes;
  const bool index =
      classes > 0 && spec.sample_shape().empty() && IsInteger(spec.dtype());
  const bool shares = classes > 0 && spec.sample_shape_size() == 1 &&
                      spec.sample_shape(0) == classes && IsFloat(spec.dtype());
  int64_t values = 1;
  for (const int64_t dim : spec.sample_shape()) {
    if (dim < 0) {
      return Refuse("has no fixed shape; built-in losses need one");
    }
    if (dim == 0) return Refuse("has no values");
    if (dim > kMaxOutputs || values * dim > kMaxOutputs) {
      return Refuse(absl::StrCat("has more than ", kMaxOutputs,
                                 " values a sample; choose another --target"));
    }
    values *= dim;
  }
  TargetForm pixels = {.kind = TargetForm::kPixelClasses};
  SetPixels(spec, options.planes, pixels);
  if (pixels.channels == 1 && IsInteger(GivenType(spec)) &&
      (loss == LossKind::kCrossEntropy ||
       (loss == LossKind::kBceWithLogits && classes > 0) ||
       (loss == LossKind::kTorchScript && options.mask))) {
    if (classes < 2 && loss != LossKind::kTorchScript) {
      return Refuse(
          "holds a class for each pixel, but the data do not declare the "
          "number of classes; give --classes=N (and --ignore_value=255 if "
          "pixels of that value have no class), or --loss=bce_with_logits for "
          "a mask of 0 and 1");
    }
    pixels.channels = pixels.classes = classes;
    pixels.outputs = classes * values;
    pixels.judges_classes = true;
    return pixels;
  }
  if (loss == LossKind::kCrossEntropy) {
    if (classes == 0 && spec.sample_shape().empty() &&
        IsInteger(spec.dtype())) {
      return Refuse(
          "holds a whole number for each sample, but the data do not declare "
          "the number of classes; give --classes=N if it is a class index from "
          "0 to N - 1, --loss=mse if it is an amount, or another --target");
    }
    if (classes == 1 && (index || shares)) {
      return Refuse(
          "has one class only; train on data of two classes or more, or name "
          "another --target");
    }
    if (classes < 2 || (!index && !shares)) {
      return Refuse(
          "is neither a class index for each sample or pixel nor a sample's "
          "shares of the classes, which --loss=cross_entropy needs; choose "
          "--loss=bce_with_logits for several yes/no values, --loss=mse for "
          "numbers, or another --target");
    }
    return TargetForm{
        .kind = index ? TargetForm::kClasses : TargetForm::kValues,
        .outputs = classes,
        .classes = classes,
        .judges_classes = true};
  }
  if (index) {
    if (loss == LossKind::kMse) {
      return Refuse(
          "is a class index, which --loss=mse would treat as an amount; choose "
          "--loss=cross_entropy, or another --target");
    }
    if (classes < 2) return Refuse("has 1 class; training needs at least 2");
    return TargetForm{.kind = loss == LossKind::kBceWithLogits
                                  ? TargetForm::kOneHot
                                  : TargetForm::kClasses,
                      .outputs = classes,
                      .classes = classes,
                      .judges_classes = true};
  }
  if (options.classes > 0 && spec.num_classes() == 0 && !shares) {
    return Refuse(absl::StrCat(
        "holds values and no class indices, so --classes=", options.classes,
        " has no effect; remove the flag"));
  }
  TargetForm form = {.kind = TargetForm::kValues, .outputs = values};
  form.classes = spec.num_classes();
  SetPixels(spec, options.planes, form);
  return form;
}

}  // namespace millrace::losses
