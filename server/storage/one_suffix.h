// Finds the files of a dataset whose format has several suffixes (.tar,
// .tar.gz): as FindShards() (server/storage/shard_paths.h), but a folder may
// have any one of the suffixes. A folder with files of two suffixes is refused,
// because those of the other one would be missing from the dataset.
//
//   MR_ASSIGN_OR_RETURN(ShardPaths shards,
//                       FindShardsOfOneSuffix(path, {".h5", ".hdf5"}));

#ifndef MILLRACE_SERVER_STORAGE_ONE_SUFFIX_H_
#define MILLRACE_SERVER_STORAGE_ONE_SUFFIX_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/storage/shard_paths.h"

namespace millrace::storage {

// `suffixes` in lower case; the first one is that of a folder without files of
// any. InvalidArgument: a folder has files of two; names a file of each and a
// glob. Otherwise errors of FindShards().
absl::StatusOr<ShardPaths> FindShardsOfOneSuffix(
    const std::string& path, absl::Span<const absl::string_view> suffixes);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_ONE_SUFFIX_H_
