#include "server/plan/transforms/kinds.h"

namespace millrace::plan {

TransformKind GrayscaleKind() {
  TransformKind kind(Transform::kGrayscale);
  kind.one_or_three_channels = true;
  kind.Probability(1);
  return kind;
}

}  // namespace millrace::plan
