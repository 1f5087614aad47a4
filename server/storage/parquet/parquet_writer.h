// Writes one Parquet shard. The footer of a finished file has room for the
// metadata, and SealParquet() writes the metadata into this room. See
// shard_format.h for the contract.

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_WRITER_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_WRITER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/storage/shard_format.h"

namespace millrace::storage {

// Upper bounds of a row group: its rows and, unless one sample is larger,
// its bytes. A random read decodes a whole row group. Fewer bytes make random
// reads cheaper and the footer longer; at 2 MiB it is 0.03 % of the file.
inline constexpr int64_t kMaxRowGroupRows = 64;
inline constexpr uint64_t kMaxRowGroupBytes = 2 << 20;

absl::StatusOr<std::unique_ptr<ShardWriter>> NewParquetWriter(
    const std::string& path, const Schema& schema);

// As ShardFormat::Seal().
absl::Status SealParquet(const std::string& path,
                         const ShardMetadata& metadata);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_WRITER_H_
