#include "trainer/losses/target_form.h"

#include "absl/strings/str_cat.h"
#include "proto/dtype.h"

namespace millrace {
namespace {

// A layer with more outputs is a mistake in the data.
constexpr int64_t kMostOutputs = 1 << 24;

bool IsFloat(DType dtype) {
  return dtype == DTYPE_FLOAT32 || dtype == DTYPE_FLOAT64 ||
         dtype == DTYPE_FLOAT16 || dtype == DTYPE_BFLOAT16;
}

absl::Status Refuse(absl::string_view why) {
  return absl::InvalidArgumentError(why);
}

}  // namespace

absl::StatusOr<TargetForm> FormOf(const TensorSpec& spec, LossKind loss) {
  const int64_t classes = spec.num_classes();
  const bool index =
      classes > 0 && spec.sample_shape().empty() && IsInteger(spec.dtype());
  const bool shares = classes > 0 && spec.sample_shape_size() == 1 &&
                      spec.sample_shape(0) == classes && IsFloat(spec.dtype());
  if (loss == LossKind::kCrossEntropy) {
    if (classes < 2 || (!index && !shares)) {
      return Refuse(
          "is neither a class index of each sample nor its shares of the "
          "classes, which --loss=cross_entropy learns; choose "
          "--loss=bce_with_logits for several yes and no, mse for numbers, or "
          "another --target");
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
          "is a class index, which --loss=mse would take for an amount; choose "
          "--loss=cross_entropy, or another --target");
    }
    if (classes < 2) return Refuse("has 1 class: there is nothing to learn");
    return TargetForm{.kind = loss == LossKind::kBceWithLogits
                                  ? TargetForm::kOneHot
                                  : TargetForm::kClasses,
                      .outputs = classes,
                      .classes = classes,
                      .judges_classes = true};
  }
  int64_t values = 1;
  for (const int64_t dim : spec.sample_shape()) {
    if (dim < 0) {
      return Refuse("has no fixed shape; the losses of this trainer need one");
    }
    if (dim == 0) return Refuse("has no values to learn");
    if (dim > kMostOutputs || values * dim > kMostOutputs) {
      return Refuse(absl::StrCat("has more than ", kMostOutputs,
                                 " values a sample; choose another --target"));
    }
    values *= dim;
  }
  return TargetForm{
      .kind = TargetForm::kValues, .outputs = values, .classes = classes};
}

}  // namespace millrace
