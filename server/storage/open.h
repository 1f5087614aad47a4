// The one factory of record sources: URI -> source.

#ifndef MILLRACE_SERVER_STORAGE_OPEN_H_
#define MILLRACE_SERVER_STORAGE_OPEN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/byte_budget.h"
#include "server/storage/record_source.h"

namespace millrace {

struct OpenSourceOptions {
  // Budget that decoded Parquet row groups are charged to; null: none is kept
  // beyond the one that a reader is working on. Must outlive the source.
  ByteBudget* cache_budget = nullptr;
  // Most bytes of decoded row groups that this source may keep.
  uint64_t cache_bytes = 256 << 20;
};

// `uri` is lmdb:PATH or parquet:PATH, PATH a file, a folder of shards or a
// glob. Reads metadata and checks every shard's size and schema, not its rows.
// NotFound: nothing there. InvalidArgument: unknown scheme, or a folder without
// shards. DataLoss: truncated, foreign or damaged; names the file. Each says
// what to do.
absl::StatusOr<std::unique_ptr<RecordSource>> OpenRecordSource(
    absl::string_view uri, const OpenSourceOptions& options);

}  // namespace millrace

#endif  // MILLRACE_SERVER_STORAGE_OPEN_H_
