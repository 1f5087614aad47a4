// Writes one Parquet shard. See shard_format.h for the contract.

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_WRITER_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_WRITER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/storage/shard_format.h"

namespace millrace {

// A row group has at most so many rows and, unless one sample alone is larger,
// so many bytes: a random read decodes a whole one.
inline constexpr int64_t kMaxRowGroupRows = 64;
inline constexpr uint64_t kMaxRowGroupBytes = 8 << 20;

absl::StatusOr<std::unique_ptr<ShardWriter>> NewParquetWriter(
    const std::string& path, const Schema& schema);

}  // namespace millrace

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_WRITER_H_
