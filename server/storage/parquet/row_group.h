// RowGroup is a decoded row group: for each field of the dataset, where the
// bytes of each row lie. Values stay where Arrow has decoded them, unless
// their type has to be widened.
//
// Immutable once made, thread-safe.

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_ROW_GROUP_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_ROW_GROUP_H_

#include <arrow/array.h>
#include <arrow/table.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/names.h"
#include "proto/types.pb.h"
#include "server/storage/parquet/column_map.h"
#include "server/storage/parquet/row_group_cache.h"

namespace millrace {

// How one field is read.
struct ColumnPlan {
  std::string name;  // of the column
  ColumnForm form = ColumnForm::kScalar;
  DType dtype = DTYPE_UNSPECIFIED;  // that a scalar is widened to
  std::vector<int> leaves;          // Parquet columns
};

class RowGroup final : public CachedRowGroup {
 public:
  // `table` has the columns of `plans`, by name. DataLoss or Unimplemented:
  // a column is not as planned.
  static absl::StatusOr<std::shared_ptr<RowGroup>> Make(
      const arrow::Table& table, const std::vector<ColumnPlan>& plans);

  uint64_t bytes() const override { return bytes_; }
  int64_t rows() const { return rows_; }

  // Points views[i] at field i of `row`. DataLoss: a null; names the column.
  absl::Status Row(int64_t row,
                   absl::Span<absl::Span<const uint8_t>> views) const;

 private:
  struct Column {
    std::string name;
    bool image = false;
    // Values of `stride` bytes each, or where offsets are set, elements of
    // `stride` bytes.
    const uint8_t* data = nullptr;
    uint64_t stride = 0;
    const int32_t* offsets32 = nullptr;
    const int64_t* offsets64 = nullptr;
    std::vector<bool> nulls;              // empty: there is none
    std::shared_ptr<arrow::Array> array;  // owns what the pointers show
    std::vector<uint8_t> widened;         // or this does
  };

  static absl::Status MakeColumn(std::shared_ptr<arrow::Array> array,
                                 const ColumnPlan& plan, Column* column);

  int64_t rows_ = 0;
  uint64_t bytes_ = 0;
  std::vector<Column> columns_;
};

}  // namespace millrace

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_ROW_GROUP_H_
