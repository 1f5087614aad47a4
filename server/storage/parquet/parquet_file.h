// ParquetFile is one shard file opened for reading: its footer, its schema and
// what the footer says of its origin. It decodes slices of row groups on
// request. Others may change the file meanwhile: CheckUnchanged() says whether
// what was read is what the file held when it was opened.
//
// Immutable, thread-safe: every decoding makes a reader of its own over the
// shared footer and reads with pread.
//
//   MR_ASSIGN_OR_RETURN(auto file, ParquetFile::Open(path));
//   MR_ASSIGN_OR_RETURN(auto slice,
//                       file->Decode({.group = 3, .end = 64}, columns,
//                                    {.rows = &page_rows}, pool, &waste));
//   MR_RETURN_IF_ERROR(file->CheckUnchanged());  // it may be used

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_FILE_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_FILE_H_

#include <arrow/io/file.h>
#include <arrow/type.h>
#include <parquet/metadata.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/columns/bounded_pool.h"
#include "server/storage/columns/column_map.h"
#include "server/storage/file_watch.h"
#include "server/storage/parquet/chunk_cost.h"
#include "server/storage/parquet/chunk_place.h"
#include "server/storage/parquet/decode_bound.h"
#include "server/storage/parquet/page_rows.h"
#include "server/storage/parquet/row_group.h"

namespace millrace::storage {

// `created_by` of files that millrace-data writes begins with it.
inline constexpr char kParquetCreator[] = "millrace-data";
// Keys of the file's metadata.
inline constexpr char kShardMetadataKey[] = "millrace";
inline constexpr char kFeaturesKey[] = "huggingface";

class ParquetFile {
 public:
  // DataLoss: truncated, foreign or damaged; Unavailable: the system has failed
  // to read it, or it has changed meanwhile. Names the file. `admit` is told
  // what the footer is going to take of memory, and how many column chunks it
  // has, before it is parsed, and ends the opening with what it returns unless
  // that is OK.
  using AdmitFooter =
      absl::FunctionRef<absl::Status(uint64_t bytes, uint64_t chunks)>;
  static absl::StatusOr<std::shared_ptr<const ParquetFile>> Open(
      const std::string& path, AdmitFooter admit = AdmitAll);

  const std::string& path() const { return path_; }
  int64_t bytes() const { return static_cast<int64_t>(watch_->bytes()); }
  int64_t rows() const { return rows_; }
  // Reads the footer as it lies in the file. Errors of Open().
  absl::StatusOr<std::string> ReadFooter() const;
  // Memory that the parsed footer takes: an estimate.
  uint64_t metadata_bytes() const;
  const arrow::Schema& schema() const { return *schema_; }
  // Present when millrace-data has written the file.
  const std::optional<ShardMetadata>& packed() const { return packed_; }
  // The `huggingface` metadata; empty: none.
  const std::string& features_json() const { return features_json_; }

  // Row groups, and the first row of each; one more entry is the end.
  int row_groups() const { return static_cast<int>(group_starts_.size()) - 1; }
  const std::vector<int64_t>& group_starts() const { return group_starts_; }

  // The leaf of a column that is read for it. InvalidArgument: there is no
  // such column.
  absl::StatusOr<int> Leaf(const std::string& column, ColumnForm form) const;

  // What decoding a column of each row group takes. DataLoss: the footer is
  // damaged.
  absl::StatusOr<std::vector<ChunkCost>> CostsOf(const ColumnPlan& plan) const;

  // The number of rows in the first page of a column, from the number of its
  // values: other pages have about as many. 0: not known.
  int64_t FirstPageRows(int group, const ColumnPlan& plan) const;

  // Where the column chunk of each row group lies, as far as the file has it.
  // DataLoss: the footer is damaged.
  absl::StatusOr<std::vector<ChunkPlace>> PlacesOf(
      const ColumnPlan& plan) const;

  // Reads bytes of the file as they are; fewer at its end.
  absl::StatusOr<uint64_t> Read(uint64_t offset,
                                absl::Span<uint8_t> buffer) const {
    return watch_->Read(offset, buffer);
  }

  // Rows [begin, end) of a row group.
  struct Slice {
    int group = 0;
    int64_t begin = 0;
    int64_t end = 0;
  };
  struct Column {
    int field = 0;  // of the dataset
    const ColumnPlan* plan = nullptr;
    ChunkCost cost;
  };

  // Of the column for which decoding rows before a slice took most; they were
  // dropped.
  struct Waste {
    int field = -1;
    int64_t rows = 0;
    uint64_t bytes = 0;
    // The rows of its pages cannot be counted.
    bool hidden = false;
  };

  // Reads and decodes columns of a slice into memory of `pool`. `page_rows`
  // remembers what it finds out of the pages. Errors as of Open();
  // FailedPrecondition: the pool has refused more memory. Whatever comes back
  // counts only when the file is CheckUnchanged() afterwards.
  absl::StatusOr<std::shared_ptr<RowGroup>> Decode(
      const Slice& slice, std::vector<Column> columns,
      PageRows::OfShard page_rows, std::shared_ptr<BoundedPool> pool,
      Waste* waste) const;

  // What decoding rows of these columns of a row group takes at most, from the
  // headers of all of its pages. DataLoss: they are damaged.
  absl::StatusOr<std::vector<DecodeBound>> BoundsOf(
      int group, absl::Span<const Column> columns) const;

  // As FileWatch::CheckUnchanged(), since before the footer was read.
  absl::Status CheckUnchanged() const { return watch_->CheckUnchanged(); }

 private:
  explicit ParquetFile(std::string path) : path_(std::move(path)) {}
  static absl::Status AdmitAll(uint64_t, uint64_t) { return absl::OkStatus(); }
  absl::Status OpenFile();
  absl::Status ParseFooter(AdmitFooter admit);
  // Fewer bytes at the end of the file.
  absl::Status ReadAt(int64_t at, int64_t count, std::string* out) const;
  absl::Status ReadSchema();
  absl::Status ReadOrigin();
  absl::StatusOr<std::shared_ptr<RowGroup>> TryDecode(
      const Slice& slice, const std::vector<Column>& columns,
      PageRows::OfShard page_rows, const std::shared_ptr<BoundedPool>& pool,
      Waste* waste, int* failed) const;

  const std::string path_;
  std::shared_ptr<arrow::io::ReadableFile> file_;
  std::unique_ptr<const FileWatch> watch_;  // file_
  int64_t rows_ = 0;
  uint32_t footer_bytes_ = 0;
  std::shared_ptr<parquet::FileMetaData> metadata_;
  std::shared_ptr<arrow::Schema> schema_;
  // The leaves of column i of the schema are [first_leaf_[i],
  // first_leaf_[i+1]).
  std::vector<int> first_leaf_;
  std::optional<ShardMetadata> packed_;
  std::string features_json_;
  std::vector<int64_t> group_starts_;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_FILE_H_
