#include "server/plan/bytes_as_images.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/dtype.h"

namespace millrace::plan {

bool HoldsBytes(const Field& field) {
  return field.kind() == FIELD_KIND_RAGGED && field.dtype() == DTYPE_UINT8;
}

bool IsLabelName(absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  return absl::StrContains(lower, "label") || lower == "class" ||
         lower == "class_name" || lower == "category" || lower == "target";
}

std::string WhyRagged(const Field& field) {
  constexpr char kLabels[] = "docs/formats.md#labels-in-other-columns";
  if (!HoldsBytes(field)) {
    return absl::StrCat(
        "is a list of variable length, even where all of its lists are equally "
        "long, and ragged tensors are not supported yet: a column of "
        "fixed-size lists, in pyarrow pa.list_(pa.",
        DTypeName(field.dtype()), "(), N), is served as a tensor");
  }
  if (IsLabelName(field.name())) {
    return absl::StrCat(
        "holds strings or bytes, and a label is a class number: write the "
        "column as int64 class numbers (",
        kLabels, ")");
  }
  return absl::StrCat(
      "holds strings, bytes or lists of variable length, and ragged tensors "
      "are not supported yet: write lists as pa.list_(pa.uint8(), N) in "
      "pyarrow, class names as int64 class numbers (",
      kLabels, "), encoded images as ",
      field.name() == "image" ? "pa.binary() in pyarrow"
                              : "a binary column named image",
      " or a struct with a binary child bytes "
      "(docs/formats.md#images-in-other-columns)");
}

std::string BytesAsImages(const Field& field) {
  constexpr char kWhere[] = " (docs/formats.md#images-in-other-columns)";
  // A binary column of this name holds images.
  if (field.name() == "image") {
    return absl::StrCat(
        "the server reads encoded images from a Parquet column of binary "
        "values, which this column is not: write it as pa.binary() in pyarrow, "
        "or as a struct with a binary child bytes",
        kWhere);
  }
  return absl::StrCat(
      "the server reads encoded images from a Parquet column of binary values "
      "that is named image, or that is a struct with a binary child bytes: "
      "rename the column or write it in that form",
      kWhere);
}

std::string BytesFieldHint(const DatasetInfo& info) {
  const auto& fields = info.schema().fields();
  const auto field = std::find_if(
      fields.begin(), fields.end(),
      [](const Field& f) { return HoldsBytes(f) && !IsLabelName(f.name()); });
  if (field == fields.end()) return "";
  return absl::StrCat("; its field ", field->name(),
                      " contains bytes or strings; ", BytesAsImages(*field));
}

}  // namespace millrace::plan
