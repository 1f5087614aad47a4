#include "server/plan/bytes_as_images.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace millrace::plan {

bool HoldsBytes(const Field& field) {
  return field.kind() == FIELD_KIND_RAGGED && field.dtype() == DTYPE_UINT8;
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
  const auto field = std::find_if(fields.begin(), fields.end(), &HoldsBytes);
  if (field == fields.end()) return "";
  return absl::StrCat("; its field ", field->name(),
                      " contains bytes or strings; ", BytesAsImages(*field));
}

}  // namespace millrace::plan
