// ColumnRule splits the records of chunk files (MDS shards, LitData chunks)
// into fields. A record is
//
//   u32 size of each column whose size varies | the bytes of each column
//
// with the columns in the order of the file. A column becomes one field: its
// bytes, or the numbers in them (stored_type.h). A value may begin with a
// header that is the same in all records, such as type and shape of an array;
// the header is no part of the field.
//
// It does not choose names and kinds of fields (column_choice.h does).
//
// Immutable, thread-safe. Fields are views of the record unless numbers must be
// converted.

#ifndef MILLRACE_SERVER_STORAGE_CHUNKS_COLUMN_RULE_H_
#define MILLRACE_SERVER_STORAGE_CHUNKS_COLUMN_RULE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/chunks/stored_type.h"
#include "server/storage/extents/field_rule.h"

namespace millrace::storage {

// Columns of one dataset. A larger number is a mistake or damage.
inline constexpr size_t kMaxColumns = 4096;

struct ChunkColumn {
  std::string name;  // in the files
  // Of each value; 0: it varies, and the record has it.
  uint64_t bytes = 0;
  StoredType stored = StoredType::kBytes;
  // What each value begins with.
  std::string header;
  int field = 0;  // index into the fields of the schema
};

// Sets `values[i]` to the bytes of column i, whose `bytes` alone matter.
// DataLoss: the sizes do not fit the record; the message begins with "byte N of
// the record" or "field 'NAME'", NAME being the name of the column.
absl::Status SplitColumns(absl::Span<const uint8_t> record,
                          const std::vector<ChunkColumn>& columns,
                          std::vector<absl::Span<const uint8_t>>* values);

class ColumnRule : public FieldRule {
 public:
  // InvalidArgument: columns and fields do not fit each other, or the schema is
  // none; names the field.
  static absl::StatusOr<std::unique_ptr<ColumnRule>> Create(
      Schema schema, std::vector<ChunkColumn> columns, int class_field);

  // The rule whose Encode() gave `encoded`. DataLoss: the bytes are none.
  static absl::StatusOr<std::unique_ptr<ColumnRule>> Restore(
      absl::string_view encoded);

  const Schema& schema() const override { return schema_; }
  int class_field() const override { return class_field_; }
  const std::vector<ChunkColumn>& columns() const { return columns_; }

  // Numbers, then schema, then each column with lengths before texts.
  std::string Encode() const override;

  absl::Status Split(absl::Span<const uint8_t> record,
                     const std::vector<bool>& used,
                     RecordFields* fields) const override;

 private:
  ColumnRule() = default;
  absl::Status SetField(const ChunkColumn& column,
                        absl::Span<const uint8_t> value,
                        RecordFields* fields) const;

  // Constant once created.
  Schema schema_;
  std::vector<ChunkColumn> columns_;
  std::vector<uint64_t> elements_;  // of each field; 0: it varies (RAGGED)
  int class_field_ = -1;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CHUNKS_COLUMN_RULE_H_
