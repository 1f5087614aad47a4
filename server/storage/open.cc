#include "server/storage/open.h"

#include <sys/stat.h>

#include <string>
#include <utility>

#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/operators/operators.h"
#include "server/storage/operator/operator_source.h"
#include "server/storage/shard_format.h"
#include "server/storage/shard_paths.h"

namespace millrace {
namespace {

constexpr int kMaxTries = 3;

// Tells a folder from another one of the same name; zeros: there is none.
using FileNumber = std::pair<dev_t, ino_t>;

FileNumber NumberOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino};
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenRecordSource(
    absl::string_view uri, const OpenSourceOptions& options) {
  // A URI comes from a flag or a configuration.
  MR_ASSIGN_OR_RETURN(const DatasetUri parsed,
                      UsageError(ParseDatasetUri(uri)));
  if (options.operators != nullptr) {
    const Operators::Source* const source =
        options.operators->FindSource(parsed.scheme);
    if (source != nullptr) return OpenOperatorSource(*source, parsed.path);
  }
  MR_ASSIGN_OR_RETURN(const ShardFormat* format,
                      UsageError(FindFormat(parsed.scheme)));
  const auto open = [&]() -> absl::StatusOr<std::unique_ptr<RecordSource>> {
    MR_ASSIGN_OR_RETURN(const ShardPaths shards,
                        FindShards(parsed.path, format->suffix()));
    return format->Open(shards, options);
  };
  // `pack --overwrite` exchanges the folder for another one: whoever has listed
  // the old one does not find its files any more, or finds new ones.
  for (int tries = 1;; ++tries) {
    const FileNumber before = NumberOf(parsed.path);
    auto source = open();
    if (source.ok() || tries == kMaxTries || NumberOf(parsed.path) == before) {
      return source;
    }
  }
}

}  // namespace millrace
