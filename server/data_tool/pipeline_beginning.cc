#include "server/data_tool/pipeline_beginning.h"

#include <google/protobuf/text_format.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "server/plan/find_field.h"
#include "server/plan/presets.h"
#include "server/plan/spec_check.h"
#include "server/plan/spec_file.h"
#include "server/plan/transforms/transforms.h"

namespace millrace::data_tool {
namespace {

// Why a transform cannot be applied once for all epochs; empty: it can.
// Defaults are written out.
absl::string_view WhyNotOnce(const Transform& transform) {
  constexpr absl::string_view kRandom = "is random";
  const auto sure = [&](double p) {
    return p == 0 || p == 1 ? absl::string_view() : kRandom;
  };
  switch (transform.kind_case()) {
    case Transform::kDecodeImage:
    case Transform::kResize:
    case Transform::kCenterCrop:
    case Transform::kPad:
      return "";
    case Transform::kHorizontalFlip:
      return sure(transform.horizontal_flip().p());
    case Transform::kVerticalFlip:
      return sure(transform.vertical_flip().p());
    case Transform::kGrayscale:
      return sure(transform.grayscale().p());
    case Transform::kNormalize:
    case Transform::kToDtype:
      return "makes numbers that an image does not store";
    case Transform::kMixUp:
    case Transform::kCutMix:
      return "mixes the samples of a batch";
    case Transform::kCustom:
      return "is an operator, which may be random";
    default:
      return kRandom;
  }
}

// The image of a mask or of boxes, otherwise the field itself.
std::string ImageOf(const PipelineSpec& spec, const std::string& field) {
  for (const FieldRole& role : spec.field_roles()) {
    if (role.field() == field) return role.of().empty() ? "image" : role.of();
  }
  return field;
}

// The image with its masks and boxes, which geometric transforms name together.
std::vector<std::string> MovedTogether(const PipelineSpec& spec,
                                       const std::string& field) {
  const std::string image = ImageOf(spec, field);
  std::vector<std::string> fields = {image};
  for (const FieldRole& role : spec.field_roles()) {
    if (role.field() != image && ImageOf(spec, role.field()) == image) {
      fields.push_back(role.field());
    }
  }
  return fields;
}

// What stands in the remainder for a transform that has been applied.
Transform Replacement(const PipelineSpec& spec, const Transform& applied,
                      StoredAs stored_as) {
  Transform to;
  std::vector<std::string> fields = plan::TransformFields(applied);
  if (applied.has_decode_image()) {
    if (stored_as != StoredAs::kTensor) {
      to.mutable_decode_image()->set_field(applied.decode_image().field());
      to.mutable_decode_image()->set_color(applied.decode_image().color());
      return to;
    }
    fields = MovedTogether(spec, fields[0]);
  }
  HorizontalFlip& never = *to.mutable_horizontal_flip();
  for (const std::string& field : fields) never.add_fields(field);
  never.set_p(0);
  return to;
}

}  // namespace

absl::StatusOr<PipelineBeginning> DividePipeline(const PipelineSpec& spec,
                                                 const DatasetInfo& info,
                                                 StoredAs stored_as) {
  PipelineSpec whole = spec;
  if (whole.sources_size() > 1) {
    return absl::InvalidArgumentError(
        "the pipeline has several sources; one dataset is packed");
  }
  if (whole.batch_size() == 0) whole.set_batch_size(plan::kAssumedBatchSize);
  if (whole.sources_size() == 0) whole.add_sources()->set_dataset("input");
  MR_RETURN_IF_ERROR(plan::CheckSpec(whole));
  if (!whole.preset().empty()) {
    MR_RETURN_IF_ERROR(plan::ExpandPreset(info, whole));
    whole.clear_preset();
  }
  PipelineBeginning result;
  *result.applied.mutable_field_roles() = whole.field_roles();
  result.remainder = spec;
  result.remainder.clear_preset();
  result.remainder.clear_transforms();
  *result.remainder.mutable_field_roles() = whole.field_roles();
  bool changes = false;
  for (int i = 0; i < whole.transforms_size(); ++i) {
    Transform transform = whole.transforms(i);
    plan::WriteDefaults(transform);
    if (result.ends_at.empty()) {
      const absl::string_view why = WhyNotOnce(transform);
      if (!why.empty()) {
        result.ends_at = absl::StrCat("transforms[", i, "].",
                                      plan::TransformName(transform), " ", why);
      }
    }
    if (!result.ends_at.empty()) {
      *result.remainder.add_transforms() = whole.transforms(i);
      continue;
    }
    for (const std::string& field : plan::TransformFields(transform)) {
      if (plan::FindField(info, field) == nullptr) {
        return absl::NotFoundError(
            absl::StrCat("transforms[", i, "].", plan::TransformName(transform),
                         ": the samples have no field '", field, "'"));
      }
    }
    changes = changes || !transform.has_decode_image();
    *result.remainder.add_transforms() =
        Replacement(whole, transform, stored_as);
    *result.applied.add_transforms() = std::move(transform);
  }
  // Decoding alone is worth it where the pixels are stored.
  if (!changes && (stored_as != StoredAs::kTensor ||
                   result.applied.transforms_size() == 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is nothing to apply before training",
        result.ends_at.empty() ? "" : absl::StrCat(": ", result.ends_at)));
  }
  return result;
}

std::string AppliedLine(const PipelineSpec& applied, StoredAs stored_as,
                        int quality) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::vector<std::string> parts;
  for (const Transform& transform : applied.transforms()) {
    std::string text;
    printer.PrintToString(transform, &text);
    while (!text.empty() && text.back() == ' ') text.pop_back();
    parts.push_back(std::move(text));
  }
  return absl::StrCat("applied: ", absl::StrJoin(parts, ", "), "; stored as ",
                      stored_as == StoredAs::kPng ? "PNG"
                      : stored_as == StoredAs::kTensor
                          ? "pixels"
                          : absl::StrCat("JPEG of quality ", quality));
}

}  // namespace millrace::data_tool
