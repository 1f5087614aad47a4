#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/plan/transforms/kinds.h"

namespace millrace::plan {
namespace {

template <typename M>
bool Names(const M& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <typename M>
void CheckLabels(const M& mixing, TransformProblems& problems) {
  for (int i = 0; i < mixing.labels_size(); ++i) {
    if (Names(mixing.fields(), mixing.labels(i))) {
      AddProblem(problems, "labels",
                 absl::StrCat("field ", mixing.labels(i),
                              " is both an image and a label: name it once"),
                 i);
    }
  }
}

// A label becomes the shares of all classes.
absl::Status MixLabel(TracedField& field) {
  if (field.trace.mixed_label) return absl::OkStatus();  // by one before
  const int64_t classes = field.field.num_classes();
  if (classes < 2) {
    return field.Refuse(
        "is mixed as a label, but the dataset does not contain its number of "
        "classes: pack the dataset with class names, or name the label");
  }
  field.trace.mixed_label = true;
  field.trace.dtype = DTYPE_FLOAT32;
  field.trace.shape = std::vector<int64_t>{classes};
  return absl::OkStatus();
}

template <typename M>
absl::Status Mix(const M& mixing, TracedField& field) {
  const std::string& name = field.field.name();
  if (mixing.labels().empty() ? name == "label"
                              : Names(mixing.labels(), name)) {
    return MixLabel(field);
  }
  MR_RETURN_IF_ERROR(field.NeedPixels());
  if (!field.trace.shape) {
    return field.Refuse(
        absl::StrCat("cannot be mixed: it ", field.trace.why_not_fixed));
  }
  return absl::OkStatus();
}

template <typename M>
TransformKind MixingKind(Transform::KindCase which) {
  TransformKind kind(which);
  kind.phase = TransformPhase::kBatch;
  kind.Labels();
  kind.Number("alpha", {.high = 1000,
                        .above = true,
                        .says = "above $0 and at most $1, or left out for $2",
                        .otherwise = 1});
  kind.Probability(1, "1, of a batch");
  kind.Rule(&CheckLabels<M>);
  kind.Trace(&Mix<M>);
  return kind;
}

}  // namespace

TransformKind MixUpKind() { return MixingKind<MixUp>(Transform::kMixUp); }

TransformKind CutMixKind() { return MixingKind<CutMix>(Transform::kCutMix); }

}  // namespace millrace::plan
