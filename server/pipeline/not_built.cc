#include "server/pipeline/not_built.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/dtype.h"

namespace millrace {
namespace {

absl::Status NotBuilt(absl::string_view where, absl::string_view what,
                      absl::string_view instead) {
  return absl::UnimplementedError(absl::StrCat(
      where, ": ", what, " is not built in this version: ", instead));
}

absl::Status CheckTransform(const Transform& transform,
                            absl::string_view where) {
  switch (transform.kind_case()) {
    case Transform::kMixUp:
    case Transform::kCutMix:
      return NotBuilt(where, "mixing batches", "leave it out");
    case Transform::kNormalize:
      if (transform.normalize().placement() == PLACEMENT_SERVER) {
        return NotBuilt(where, "normalising on the server",
                        "leave placement out, the client does it on the "
                        "device");
      }
      return absl::OkStatus();
    case Transform::kToDtype:
      return NotBuilt(where, "to_dtype", "convert in the trainer");
    default:
      return absl::OkStatus();
  }
}

}  // namespace

absl::Status CheckBuilt(const PipelineSpec& resolved, const DatasetInfo& info) {
  for (int i = 0; i < resolved.transforms_size(); ++i) {
    const absl::Status status = CheckTransform(
        resolved.transforms(i), absl::StrCat("transforms[", i, "]"));
    if (!status.ok()) return status;
  }
  for (int i = 0; i < resolved.field_roles_size(); ++i) {
    if (resolved.field_roles(i).role() != FieldRole::IMAGE) {
      return NotBuilt(absl::StrCat("field_roles[", i, "]"),
                      "moving masks and "
                      "boxes",
                      "leave the role out");
    }
  }
  for (int i = 0; i < resolved.outputs_size(); ++i) {
    const Output& output = resolved.outputs(i);
    const std::string where = absl::StrCat("outputs[", i, "]");
    if (output.layout() != Output::AS_STORED) {
      return NotBuilt(absl::StrCat(where, ".layout"), "another layout",
                      "leave layout out");
    }
    for (const Field& field : info.schema().fields()) {
      if (field.name() != output.field() || field.kind() != FIELD_KIND_TENSOR ||
          output.dtype() == field.dtype()) {
        continue;
      }
      return NotBuilt(absl::StrCat(where, ".dtype"),
                      absl::StrCat("sending ", DTypeName(field.dtype()), " as ",
                                   DTypeName(output.dtype())),
                      "leave dtype out");
    }
  }
  return absl::OkStatus();
}

}  // namespace millrace
