// Which column of a Parquet or Arrow file becomes which field, and in which
// form its values lie there (docs/formats.md, "Foreign Parquet").

#ifndef MILLRACE_SERVER_STORAGE_COLUMNS_COLUMN_MAP_H_
#define MILLRACE_SERVER_STORAGE_COLUMNS_COLUMN_MAP_H_

#include <arrow/type.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/columns/features_json.h"

namespace millrace::storage {

enum class ColumnForm {
  kImageStruct,  // struct with a binary child `bytes`
  kBinary,       // binary, string and their large kinds
  kScalar,
  kFixedList,  // and fixed-size lists of these
  kList,
};

// The field of one column of a foreign file. False: left out.
bool FieldOfColumn(const arrow::Field& column,
                   const std::map<std::string, ClassLabelFeature>& labels,
                   Field* field, ColumnForm* form);

// Why FieldOfColumn() leaves a column out, for people: "its type ...".
std::string WhyLeftOut(const arrow::Field& column);

// DataLoss of a row with a null. `image`: in the bytes of an image.
absl::Status NullInRow(absl::string_view column, bool image);

// The column type that the packer writes for `field`. Unimplemented: there is
// none; names the field.
absl::StatusOr<std::shared_ptr<arrow::DataType>> ColumnTypeOf(
    const Field& field);

// The form that a packed field's column has.
ColumnForm PackedForm(const Field& field);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_COLUMNS_COLUMN_MAP_H_
