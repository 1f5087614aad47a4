// LMDB as a storage format; see shard_format.h.

#ifndef MILLRACE_SERVER_STORAGE_LMDB_LMDB_FORMAT_H_
#define MILLRACE_SERVER_STORAGE_LMDB_LMDB_FORMAT_H_

#include "server/storage/shard_format.h"

namespace millrace::storage {

const ShardFormat& LmdbFormat();

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_LMDB_LMDB_FORMAT_H_
