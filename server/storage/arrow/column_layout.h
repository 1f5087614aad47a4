// ColumnLayout says where the values of one field lie in each record batch of a
// schema: which arrays and buffers, and how to get from a row to its numbers or
// bytes. PlanColumns() makes the layouts of all columns that become fields.
//
// Pure: it knows types, not files. Immutable.
//
//   const std::vector<ColumnLayout> layouts =
//       PlanColumns(file->schema(), features, &info);

#ifndef MILLRACE_SERVER_STORAGE_ARROW_COLUMN_LAYOUT_H_
#define MILLRACE_SERVER_STORAGE_ARROW_COLUMN_LAYOUT_H_

#include <arrow/type.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/columns/features_json.h"

namespace millrace::storage {

// Number of a buffer in a record batch. Arrays with views have a number of
// buffers that differs between batches: it counts beside `index`.
struct BufferNumber {
  uint64_t index = 0;
  uint64_t views = 0;  // arrays with views before it
};

// One array on the way from the column to its values. The first buffer of each
// is its validity, the next ones what the kind says.
struct ColumnLevel {
  enum class Kind : uint8_t {
    kStruct,
    kFixedList,
    kList32,  // offsets
    kList64,
    kNumbers,   // values
    kBits,      // values
    kBinary32,  // offsets, values
    kBinary64,
    kViews,  // views, any number of values
  };
  Kind kind = Kind::kStruct;
  uint64_t node = 0;  // number of the array in the batch
  BufferNumber buffer;
  // kFixedList: elements of a list. Lists: the same, -1 if any is allowed.
  // kNumbers: bytes of a number.
  int64_t items = -1;
};

struct ColumnLayout {
  std::string name;  // of the column
  bool image = false;
  DType dtype = DTYPE_UNSPECIFIED;
  // The type of the numbers where they lie; they may be widened to `dtype`.
  arrow::Type::type stored = arrow::Type::NA;
  std::vector<ColumnLevel> levels;  // from the rows to the values
  // Buffers of the whole column: [begin, end).
  BufferNumber begin;
  BufferNumber end;
};

// What the metadata of Hugging Face's datasets say of the columns.
struct FeatureMaps {
  std::map<std::string, ClassLabelFeature> labels;
  ColumnFeatures others;
};

// Sets schema and left_out of `info`. The layouts have the order of its fields.
std::vector<ColumnLayout> PlanColumns(const arrow::Schema& schema,
                                      const FeatureMaps& features,
                                      DatasetInfo* info);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_ARROW_COLUMN_LAYOUT_H_
