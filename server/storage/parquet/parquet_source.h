// A dataset in Parquet shards, packed by millrace-data or written by another
// program. The slice of its row group in which a sample lies is decoded, its
// fields that are used alone; decoded slices are kept inside the budget
// (slice_plan.h, row_group_cache.h).
//
// Thread-safe as RecordSource says.

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_SOURCE_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_SOURCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/storage/open_options.h"
#include "server/storage/record_source.h"
#include "server/storage/shard_paths.h"

namespace millrace::storage {

// DataLoss: a file is truncated, foreign or damaged, the set is not whole, or
// the files' schemas differ. InvalidArgument: no row, or no column that can be
// read. ResourceExhausted: the budget has no room for the cache, or the cache
// for a row of any column.
absl::StatusOr<std::unique_ptr<RecordSource>> OpenParquetSource(
    const ShardPaths& shards, const OpenSourceOptions& options);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_SOURCE_H_
