#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/plan/spec_limits.h"
#include "server/plan/transforms/kinds.h"

namespace millrace::plan {
namespace {

absl::Status Fits(const GaussianBlur& blur, TracedField& field) {
  const int64_t radius = blur.kernel_size() / 2;
  const auto& shape = field.trace.shape;
  if (shape && std::min((*shape)[0], (*shape)[1]) <= radius) {
    return field.Refuse(absl::StrCat(
        "has images of ", (*shape)[0], " x ", (*shape)[1],
        ": their edges cannot be mirrored by the ", radius,
        " pixels that kernel_size ", blur.kernel_size(), " reaches beyond"));
  }
  return absl::OkStatus();
}

}  // namespace

TransformKind GaussianBlurKind() {
  TransformKind kind(Transform::kGaussianBlur);
  kind.one_or_three_channels = true;
  kind.Number("kernel_size", {.low = 1,
                              .high = kMaxBlurKernel,
                              .odd = true,
                              .says = "an odd number of pixels, $0 .. $1"});
  kind.Range("sigma", {.low = 0,
                       .high = 1000,
                       .above = true,
                       .otherwise = {{0.1, 2}},
                       .left_out = "0.1 .. 2"});
  kind.Probability(1);
  kind.Trace(&Fits);
  return kind;
}

}  // namespace millrace::plan
