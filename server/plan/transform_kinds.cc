#include "server/plan/transform_kinds.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/reflection.h>

#include "common/logging.h"

namespace millrace {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

const FieldDescriptor* KindField(const Transform& transform) {
  return transform.GetReflection()->GetOneofFieldDescriptor(
      transform, transform.GetDescriptor()->oneof_decl(0));
}

// The repeated strings `name` of the transform's kind, or `otherwise`.
std::vector<std::string> Names(const Transform& transform, const char* name,
                               const char* otherwise) {
  const FieldDescriptor* kind = KindField(transform);
  if (kind == nullptr) return {};
  const Message& message =
      transform.GetReflection()->GetMessage(transform, kind);
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  MR_CHECK(field != nullptr && field->is_repeated())
      << kind->name() << "." << name;
  const auto names =
      message.GetReflection()->GetRepeatedFieldRef<std::string>(message, field);
  if (names.empty()) return {otherwise};
  return {names.begin(), names.end()};
}

}  // namespace

std::string TransformName(const Transform& transform) {
  const FieldDescriptor* kind = KindField(transform);
  return kind == nullptr ? "transform" : kind->name();
}

TransformPhase PhaseOf(const Transform& transform) {
  switch (transform.kind_case()) {
    case Transform::kDecodeImage:
      return TransformPhase::kDecode;
    case Transform::kMixUp:
    case Transform::kCutMix:
      return TransformPhase::kBatch;
    case Transform::kNormalize:
      return TransformPhase::kNormalize;
    case Transform::kToDtype:
      return TransformPhase::kDtype;
    default:
      return TransformPhase::kSample;
  }
}

bool IsGeometric(const Transform& transform) {
  switch (transform.kind_case()) {
    case Transform::kRandomResizedCrop:
    case Transform::kResize:
    case Transform::kCenterCrop:
    case Transform::kRandomCrop:
    case Transform::kPad:
    case Transform::kHorizontalFlip:
    case Transform::kVerticalFlip:
    case Transform::kRandomRotation:
    case Transform::kRandomAffine:
      return true;
    default:
      return false;
  }
}

std::vector<std::string> TransformFields(const Transform& transform) {
  if (transform.has_decode_image()) {
    const std::string& field = transform.decode_image().field();
    return {field.empty() ? "image" : field};
  }
  std::vector<std::string> fields = Names(transform, "fields", "image");
  for (std::string& label : TransformLabels(transform)) {
    fields.push_back(std::move(label));
  }
  return fields;
}

std::vector<std::string> TransformLabels(const Transform& transform) {
  if (PhaseOf(transform) != TransformPhase::kBatch) return {};
  return Names(transform, "labels", "label");
}

}  // namespace millrace
