// Finds the files of an arrow: dataset: a file, a folder of *.arrow, *.feather
// or *.ipc files, a glob, ranges and lists in braces, or a folder that Hugging
// Face datasets wrote (save_to_disk), which lists its files itself.
//
// Reads folders, state.json and dataset_dict.json, never the files of rows.
//
//   MR_ASSIGN_OR_RETURN(ShardPaths found, FindArrowFiles("/data/train"));

#ifndef MILLRACE_SERVER_STORAGE_ARROW_ARROW_PATHS_H_
#define MILLRACE_SERVER_STORAGE_ARROW_ARROW_PATHS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/storage/shard_paths.h"

namespace millrace::storage {

// Errors as FindShards(). InvalidArgument: a folder of splits (DatasetDict), a
// dataset with an indices mapping; DataLoss: a state.json that is damaged or
// names files elsewhere. NotFound: a file that state.json names is missing.
absl::StatusOr<ShardPaths> FindArrowFiles(absl::string_view path);

// dataset_info.json beside the files; empty: there is none, or the files are in
// several folders.
std::string FindDatasetInfo(const ShardPaths& shards);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_ARROW_ARROW_PATHS_H_
