// Arrow's IPC files as a storage format; see shard_format.h.

#ifndef MILLRACE_SERVER_STORAGE_ARROW_ARROW_FORMAT_H_
#define MILLRACE_SERVER_STORAGE_ARROW_ARROW_FORMAT_H_

#include "server/storage/shard_format.h"

namespace millrace::storage {

// Null in a program that was built with --define=parquet=off.
const ShardFormat* ArrowFormat();

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_ARROW_ARROW_FORMAT_H_
