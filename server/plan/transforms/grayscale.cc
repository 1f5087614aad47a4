#include "server/plan/transforms/kinds.h"

namespace millrace {

TransformKind GrayscaleKind() {
  TransformKind kind(Transform::kGrayscale);
  kind.one_or_three_channels = true;
  kind.Probability(1);
  return kind;
}

}  // namespace millrace
