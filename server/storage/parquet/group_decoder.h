// GroupDecoder decodes a slice of the rows of one row group, column by column.
// Pages that end before the first wanted row are skipped: their headers or the
// file's page index contain their number of rows, or their lists are counted,
// once for each column chunk (page_rows.h). Other rows before it are decoded a
// few at a time and dropped. Pages after the last row are not read.
//
// Belongs to one thread. Everything that Arrow allocates comes from the pool or
// is charged to it. The pool must outlive the arrays. Throws as Parquet does.
//
//   ARROW_ASSIGN_OR_RAISE(
//       auto decoder, GroupDecoder::Make(file, metadata, 3, columns,
//                                        {.rows = &page_rows, .shard = 7},
//                                        pool));
//   ARROW_ASSIGN_OR_RAISE(auto arrays, decoder->Read(0, 4096, 5120, 1024));

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_GROUP_DECODER_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_GROUP_DECODER_H_

#include <arrow/array.h>
#include <arrow/io/interfaces.h>
#include <arrow/result.h>
#include <parquet/arrow/reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "server/storage/columns/bounded_pool.h"
#include "server/storage/parquet/page_rows.h"

namespace millrace::storage {

// How Arrow reads: without threads of its own, since the pipeline's workers are
// the parallelism, and without reading ahead.
parquet::ArrowReaderProperties DecoderProperties();

class GroupDecoder {
 public:
  struct Column {
    int leaf = 0;             // Parquet's column
    bool dictionary = false;  // read it as a dictionary
    bool stream = false;      // read it page by page
  };

  // `file` and `metadata` as ParquetFile has opened them.
  static arrow::Result<std::unique_ptr<GroupDecoder>> Make(
      std::shared_ptr<arrow::io::RandomAccessFile> file,
      std::shared_ptr<parquet::FileMetaData> metadata, int row_group,
      std::vector<Column> columns, PageRows::OfShard page_rows,
      BoundedPool* pool);
  ~GroupDecoder();
  GroupDecoder(const GroupDecoder&) = delete;
  GroupDecoder& operator=(const GroupDecoder&) = delete;

  // Rows [begin, end) of a column; rows before `begin` are decoded at most
  // `step` at a time. Once for each column. Invalid: a damaged dictionary.
  arrow::Result<arrow::ArrayVector> Read(int column, int64_t begin, int64_t end,
                                         int64_t step);

  // Of the last Read(): rows before `begin` that were decoded, and whether that
  // is because the rows of the pages cannot be counted.
  int64_t dropped_rows() const { return dropped_rows_; }
  bool rows_hidden() const;

 private:
  struct Progress;
  class Pages;
  class Group;
  class File;

  GroupDecoder(int row_group, std::vector<Column> columns);

  const int row_group_;
  const std::vector<Column> columns_;
  const std::shared_ptr<Progress> progress_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  int64_t dropped_rows_ = 0;
};

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_GROUP_DECODER_H_
