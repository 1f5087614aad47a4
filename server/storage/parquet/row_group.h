// RowGroup is a slice of a decoded row group: for each field that is read,
// where the bytes of each row lie. Values stay where Arrow has decoded them,
// unless their type has to be widened; strings may stay a dictionary.
//
// Immutable once made, thread-safe. Owns the pool of its arrays.

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_ROW_GROUP_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_ROW_GROUP_H_

#include <arrow/array.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/names.h"
#include "proto/types.pb.h"
#include "server/storage/columns/bounded_pool.h"
#include "server/storage/columns/column_map.h"
#include "server/storage/columns/row_group_cache.h"

namespace millrace::storage {

// How one field is read.
struct ColumnPlan {
  std::string name;  // of the column
  ColumnForm form = ColumnForm::kScalar;
  DType dtype = DTYPE_UNSPECIFIED;  // that a scalar is widened to
  int leaf = -1;                    // Parquet's column
};

// Bytes beside Arrow's that a value becomes; 0: it stays as it is.
uint64_t WidenedBytes(const ColumnPlan& plan, const arrow::DataType& type);

// Whether its values may be read as a dictionary and indices into it.
bool MayBeDictionary(const ColumnPlan& plan, const arrow::DataType& type);

class RowGroup final : public CachedRowGroup {
 public:
  // Of `rows` rows.
  RowGroup(int64_t rows, std::shared_ptr<BoundedPool> pool)
      : pool_(std::move(pool)), rows_(rows) {}

  // Adds the column that becomes field `field`; `chunks` hold all rows.
  // DataLoss or Unimplemented: it is not as planned.
  absl::Status Add(int field, arrow::ArrayVector chunks,
                   const ColumnPlan& plan);

  uint64_t bytes() const override;
  int64_t rows() const { return rows_; }

  // Points views[i] at field i of `row`, for each field that was added.
  // DataLoss: a null; names the column.
  absl::Status Row(int64_t row,
                   absl::Span<absl::Span<const uint8_t>> views) const;

 private:
  struct Column {
    int field = 0;
    std::string name;
    bool image = false;
    // Values of `stride` bytes each, or where offsets are set, elements of
    // `stride` bytes.
    const uint8_t* data = nullptr;
    uint64_t stride = 0;
    const int32_t* offsets32 = nullptr;
    const int64_t* offsets64 = nullptr;
    const int32_t* indices = nullptr;     // of rows, into values; null: rows
    std::vector<bool> nulls;              // empty: there is none
    std::shared_ptr<arrow::Array> array;  // owns what the pointers show
    std::vector<uint8_t> widened;         // or this does
  };

  static absl::Status MakeColumn(std::shared_ptr<arrow::Array> array,
                                 const ColumnPlan& plan, Column* column);

  const std::shared_ptr<BoundedPool> pool_;  // outlives the arrays
  const int64_t rows_;
  std::vector<Column> columns_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_ROW_GROUP_H_
