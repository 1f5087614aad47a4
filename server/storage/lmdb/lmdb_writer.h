// Writes one LMDB shard: samples are appended in order, the metadata record
// comes last. See shard_format.h for the contract.

#ifndef MILLRACE_SERVER_STORAGE_LMDB_LMDB_WRITER_H_
#define MILLRACE_SERVER_STORAGE_LMDB_LMDB_WRITER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/storage/shard_format.h"

namespace millrace::storage {

absl::StatusOr<std::unique_ptr<ShardWriter>> NewLmdbWriter(
    const std::string& path, const Schema& schema);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_LMDB_LMDB_WRITER_H_
