// Writes one LMDB shard: samples are appended in order, SealLmdb() adds the
// metadata record. See shard_format.h for the contract.

#ifndef MILLRACE_SERVER_STORAGE_LMDB_LMDB_WRITER_H_
#define MILLRACE_SERVER_STORAGE_LMDB_LMDB_WRITER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/storage/shard_format.h"

namespace millrace::storage {

absl::StatusOr<std::unique_ptr<ShardWriter>> NewLmdbWriter(
    const std::string& path, const Schema& schema);

// As ShardFormat::Seal().
absl::Status SealLmdb(const std::string& path, const ShardMetadata& metadata);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_LMDB_LMDB_WRITER_H_
