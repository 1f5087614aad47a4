// A dataset in files of Arrow's IPC formats: Feather version 2, streams, and
// folders of Hugging Face datasets. The files are mapped, and samples are read
// where they lie. Record batches with compressed buffers are decompressed as a
// whole, in the columns that are used, into the row group cache.
//
// Thread-safe as RecordSource says.

#ifndef MILLRACE_SERVER_STORAGE_ARROW_ARROW_SOURCE_H_
#define MILLRACE_SERVER_STORAGE_ARROW_ARROW_SOURCE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/storage/open_options.h"
#include "server/storage/record_source.h"
#include "server/storage/shard_paths.h"

namespace millrace::storage {

// DataLoss: a file is truncated, foreign or damaged, or the files' schemas
// differ. InvalidArgument: no row, no column that can be read, or images that
// are paths alone. ResourceExhausted: the budget has no room for the list of
// record batches, or for the cache of compressed ones, or the cache for a
// batch of any column.
absl::StatusOr<std::unique_ptr<RecordSource>> OpenArrowSource(
    const ShardPaths& shards, const OpenSourceOptions& options);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_ARROW_ARROW_SOURCE_H_
