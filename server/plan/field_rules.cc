#include "server/plan/field_rules.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace millrace::plan {
namespace {

const FieldRole* FindRole(const PipelineSpec& spec, const std::string& field) {
  for (const FieldRole& role : spec.field_roles()) {
    if (role.field() == field) return &role;
  }
  return nullptr;
}

bool Names(const std::vector<std::string>& fields, const std::string& field) {
  return std::find(fields.begin(), fields.end(), field) != fields.end();
}

absl::string_view Noun(FieldRole::Role role) {
  return role == FieldRole::MASK ? "the mask" : "the boxes";
}

// Writes: fields: ["image", "mask"]
std::string WriteFields(std::vector<std::string> fields,
                        const std::string& more) {
  fields.push_back(more);
  return absl::StrCat("fields: [\"", absl::StrJoin(fields, "\", \""), "\"]");
}

// Why `transform` must not follow `before`, and what to do.
std::string OrderProblem(const Transform& transform, TransformPhase phase,
                         TransformPhase before, const std::string& before_name,
                         const std::string& field) {
  const std::string name = TransformName(transform);
  if (phase == TransformPhase::kDecode) {
    return absl::StrCat(
        "decode_image of field ", field,
        " comes after another transform of the field: decode_image must be the "
        "field's first transform, and may occur once");
  }
  if (before == TransformPhase::kDtype) {
    if (phase == TransformPhase::kNormalize) {
      return absl::StrCat(
          "normalize of field ", field,
          " comes after to_dtype: normalize reads the stored uint8 pixels, "
          "divides them by 255 and produces float32; remove to_dtype, or put "
          "it last to get another floating-point type");
    }
    return absl::StrCat("nothing may come after to_dtype of field ", field,
                        ": move to_dtype to the end");
  }
  if (before == TransformPhase::kNormalize) {
    if (phase == TransformPhase::kNormalize) {
      return absl::StrCat(
          "field ", field,
          " has two normalize transforms: keep one, at the end");
    }
    std::string hint = "move normalize to the end";
    if (transform.has_random_erasing()) {
      hint =
          "move random_erasing in front of it; where torchvision erases "
          "normalised pixels with value 0, write value: 255 * mean here";
    } else if (phase == TransformPhase::kBatch) {
      hint = absl::StrCat(
          "move ", name,
          " in front of it; the result is the same in either order");
    }
    return absl::StrCat("nothing may come after normalize of field ", field,
                        " but to_dtype: ", hint);
  }
  return absl::StrCat(name, " of field ", field, " comes after ", before_name,
                      ", which works on finished samples: move ", before_name,
                      " after it");
}

}  // namespace

FieldRole::Role RoleOf(const PipelineSpec& spec, const std::string& field) {
  const FieldRole* role = FindRole(spec, field);
  return role == nullptr ? FieldRole::IMAGE : role->role();
}

std::string ImageOf(const PipelineSpec& spec, const std::string& field) {
  const FieldRole* role = FindRole(spec, field);
  if (role == nullptr || role->role() == FieldRole::IMAGE) return "";
  return role->of().empty() ? "image" : role->of();
}

std::vector<absl::Status> FieldRules::Next(const Transform& transform) {
  problems_.clear();
  const std::vector<std::string> fields = TransformFields(transform);
  std::set<std::string> seen;
  for (const std::string& field : fields) {
    if (field.empty()) Invalid("a field has no name");
    if (!seen.insert(field).second) {
      Invalid(absl::StrCat("field ", field, " is named twice"));
      continue;
    }
    CheckOrder(transform, field);
    CheckRole(transform, field, fields);
  }
  return std::exchange(problems_, {});
}

void FieldRules::Invalid(absl::string_view text) {
  problems_.push_back(absl::InvalidArgumentError(text));
}

void FieldRules::CheckOrder(const Transform& transform,
                            const std::string& field) {
  History& history = history_[field];
  const TransformPhase phase = PhaseOf(transform);
  const bool only_once = phase == TransformPhase::kDecode ||
                         phase == TransformPhase::kNormalize ||
                         phase == TransformPhase::kDtype;
  if (history.count > 0 &&
      (phase < history.phase || (phase == history.phase && only_once))) {
    Invalid(OrderProblem(transform, phase, history.phase, history.last, field));
  }
  if (history.count == 0 || phase >= history.phase) {
    history.phase = phase;
    history.last = TransformName(transform);
  }
  ++history.count;
}

void FieldRules::CheckRole(const Transform& transform, const std::string& field,
                           const std::vector<std::string>& fields) {
  const FieldRole::Role role = RoleOf(spec_, field);
  const std::string name = TransformName(transform);
  if (role == FieldRole::IMAGE) {
    if (transform.has_decode_image() &&
        transform.decode_image().color() == DecodeImage::INDEX) {
      Invalid(absl::StrCat(
          "color: INDEX gives class indices, which only a mask holds: add "
          "field_roles { field: \"",
          field, "\" role: MASK of: \"image\" }, or decode to RGB or GRAY"));
    }
    const bool mixes = PhaseOf(transform) == TransformPhase::kBatch;
    for (const FieldRole& other : spec_.field_roles()) {
      if (ImageOf(spec_, other.field()) != field) continue;
      if (IsGeometric(transform) && !Names(fields, other.field())) {
        Invalid(absl::StrCat(name, " moves field ", field, " without ",
                             Noun(other.role()), " of the same image in field ",
                             other.field(), ": write ",
                             WriteFields(fields, other.field())));
      } else if (mixes || KindOf(transform)->image_alone) {
        Invalid(absl::StrCat(
            name, " changes field ", field, ", and ", Noun(other.role()),
            " in field ", other.field(), " cannot follow: ",
            mixes ? "remove the transform"
                  : "use random_affine and color_jitter instead"));
      }
    }
    return;
  }
  const absl::string_view noun = role == FieldRole::MASK ? "a mask" : "boxes";
  if (IsGeometric(transform)) {
    if (const std::string image = ImageOf(spec_, field);
        !Names(fields, image)) {
      Invalid(absl::StrCat("field ", field, " holds ", noun, " of field ",
                           image, ", which ", name, " does not name: write ",
                           WriteFields({image}, field),
                           ", so that both move alike"));
    }
    return;
  }
  if (transform.has_to_dtype() || transform.has_custom()) return;
  if (transform.has_decode_image() && role == FieldRole::MASK) {
    if (transform.decode_image().color() == DecodeImage::RGB) {
      Invalid(absl::StrCat("field ", field,
                           " holds a mask, which has one channel: decode it "
                           "with color: INDEX (or GRAY)"));
    }
    return;
  }
  Invalid(absl::StrCat(name, " changes the values of pixels, but field ", field,
                       " holds ", noun,
                       ": remove the field from the transform"));
}

}  // namespace millrace::plan
