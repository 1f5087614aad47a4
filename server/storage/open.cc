#include "server/storage/open.h"

#include "common/status_macros.h"
#include "server/operators/operators.h"
#include "server/storage/operator/operator_source.h"
#include "server/storage/shard_format.h"
#include "server/storage/shard_paths.h"

namespace millrace {

absl::StatusOr<std::unique_ptr<RecordSource>> OpenRecordSource(
    absl::string_view uri, const OpenSourceOptions& options) {
  MR_ASSIGN_OR_RETURN(const DatasetUri parsed, ParseDatasetUri(uri));
  if (options.operators != nullptr) {
    const Operators::Source* const source =
        options.operators->FindSource(parsed.scheme);
    if (source != nullptr) return OpenOperatorSource(*source, parsed.path);
  }
  MR_ASSIGN_OR_RETURN(const ShardFormat* format, FindFormat(parsed.scheme));
  MR_ASSIGN_OR_RETURN(const ShardPaths shards,
                      FindShards(parsed.path, format->suffix()));
  return format->Open(shards, options);
}

}  // namespace millrace
