#include "server/plan/transforms/kinds.h"

namespace millrace::plan {
namespace {

TransformKind FlipKind(Transform::KindCase which) {
  TransformKind kind(which);
  kind.geometric = true;
  kind.Probability(0.5);
  return kind;
}

}  // namespace

TransformKind HorizontalFlipKind() {
  return FlipKind(Transform::kHorizontalFlip);
}

TransformKind VerticalFlipKind() { return FlipKind(Transform::kVerticalFlip); }

}  // namespace millrace::plan
