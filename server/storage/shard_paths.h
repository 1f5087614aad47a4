// Finds the files of a dataset's PATH: a file, a folder of shards, a glob, or
// ranges of numbers in braces (train-{000..009}.tar).
// Looks only at names, never into files.
//
//   MR_ASSIGN_OR_RETURN(ShardPaths shards, FindShards("/data/train", ".lmdb"));

#ifndef MILLRACE_SERVER_STORAGE_SHARD_PATHS_H_
#define MILLRACE_SERVER_STORAGE_SHARD_PATHS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace::storage {

struct ShardPaths {
  // In bytewise order; of ranges in the order of their numbers.
  std::vector<std::string> files;
  bool one_file = false;  // PATH itself is the file
};

// `suffix` (".lmdb") picks the shards in a folder; hidden files are left out.
// NotFound: there is nothing at `path`, or a file of a range is missing.
// InvalidArgument: a folder without shards, or neither file nor folder; the
// message says what is there instead (shards of the other format: a usage
// error, with the URI to write). Also InvalidArgument, because it would be
// missing from the dataset: something with the name of a shard that is not a
// regular file, a file with another spelling of the suffix (.PARQUET, .pq), and
// folders with shards below the folder.
absl::StatusOr<ShardPaths> FindShards(absl::string_view path,
                                      absl::string_view suffix);

// "part-00002-of-00004.lmdb"
std::string ShardName(int index, int count, absl::string_view suffix);

// Takes "PREFIX-00002-of-00004SUFFIX" apart; false for any other name.
struct NumberedName {
  std::string prefix;
  int index = 0;
  int count = 0;
};
bool ParseNumberedName(absl::string_view name, absl::string_view suffix,
                       NumberedName* parsed);

// Checks files whose names number them (train-00002-of-00004.parquet): one
// set, none missing. Files with other names pass. DataLoss: a shard is missing
// or there are two sets; names the file.
absl::Status CheckNumberedNames(const std::vector<std::string>& files,
                                absl::string_view suffix);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_SHARD_PATHS_H_
