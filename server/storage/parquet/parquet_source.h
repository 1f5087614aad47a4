// A dataset in Parquet shards, packed by millrace-data or written by another
// program. A sample's row group is decoded as a whole; decoded row groups are
// kept inside the budget.
//
// Thread-safe as RecordSource says.

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_SOURCE_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_SOURCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/storage/open_options.h"
#include "server/storage/record_source.h"
#include "server/storage/shard_paths.h"

namespace millrace {

// DataLoss: a file is truncated, foreign or damaged, the set is not whole, or
// the files' schemas differ. InvalidArgument: no row, or no column that can be
// read. ResourceExhausted: a row group is larger than the cache.
absl::StatusOr<std::unique_ptr<RecordSource>> OpenParquetSource(
    const ShardPaths& shards, const OpenSourceOptions& options);

}  // namespace millrace

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_SOURCE_H_
