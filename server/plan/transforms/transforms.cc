#include "server/plan/transforms/transforms.h"

#include "common/logging.h"
#include "server/plan/transforms/kinds.h"

namespace millrace::plan {
namespace {

// By field number; null: the spec has no transform with this number.
using Kinds = std::vector<const TransformKind*>;

const Kinds* DescribeAll() {
  auto* const kinds = new Kinds(1, nullptr);  // 0: an empty transform
  for (const auto& describe : kAllKinds) {
    auto* const kind = new TransformKind(describe());
    const size_t number = kind->number();
    if (kinds->size() <= number) kinds->resize(number + 1, nullptr);
    (*kinds)[number] = kind;
  }
  const auto* all = Transform::descriptor()->oneof_decl(0);
  for (int i = 0; i < all->field_count(); ++i) {
    const size_t number = all->field(i)->number();
    MR_CHECK(number < kinds->size() && (*kinds)[number] != nullptr)
        << all->field(i)->name() << " is not described";
  }
  return kinds;
}

}  // namespace

const TransformKind* KindOf(const Transform& transform) {
  static const Kinds& kinds = *DescribeAll();
  return kinds[transform.kind_case()];
}

std::string TransformName(const Transform& transform) {
  const TransformKind* kind = KindOf(transform);
  return kind == nullptr ? "transform" : kind->name();
}

TransformPhase PhaseOf(const Transform& transform) {
  const TransformKind* kind = KindOf(transform);
  return kind == nullptr ? TransformPhase::kSample : kind->phase;
}

bool IsGeometric(const Transform& transform) {
  const TransformKind* kind = KindOf(transform);
  return kind != nullptr && kind->geometric;
}

std::vector<std::string> TransformFields(const Transform& transform) {
  const TransformKind* kind = KindOf(transform);
  if (kind == nullptr) return {};
  return kind->Fields(transform);
}

TransformProblems FindTransformProblems(const Transform& transform) {
  const TransformKind* kind = KindOf(transform);
  if (kind == nullptr) return {};
  return kind->Check(transform);
}

void WriteDefaults(Transform& transform) {
  const TransformKind* kind = KindOf(transform);
  if (kind != nullptr) kind->WriteDefaults(transform);
}

}  // namespace millrace::plan
