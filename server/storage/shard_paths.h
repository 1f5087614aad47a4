// Finds the files of a dataset's PATH: a file, a folder of shards, a glob, or
// ranges and lists in braces ({train,extra}-{000..009}.tar).
// Looks only at names, and into files only where FolderRules say so.
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
  // In bytewise order; of braces in the order of their numbers and words.
  std::vector<std::string> files;
  bool one_file = false;  // PATH itself is the file
  // The files are named one by one, as braces do.
  bool by_braces = false;
  // The folder that PATH fixes: names of folders below it tell files apart.
  std::string base;
};

// What else is a shard in a folder.
struct FolderRules {
  // Files of any name that begin with this, where no file has the name of a
  // shard; empty: none. Other spellings of the suffix are shards then, too, and
  // names that begin with '_' are left out: writers of tables mark with it what
  // is no data.
  absl::string_view start;
  // Folders below that are named KEY=VALUE, and their files.
  bool partitions = false;
};

// `suffix` (".lmdb") picks the shards in a folder; hidden files are left out.
// NotFound: there is nothing at `path`, or a file of braces is missing.
// InvalidArgument: a folder without shards, or neither file nor folder; the
// message says what is there instead (shards of the other format: a usage
// error, with the URI to write). Also InvalidArgument, because it would be
// missing from the dataset: something with the name of a shard that is not a
// regular file, a file with another spelling of the suffix (.PARQUET, .pq), and
// folders with shards below the folder.
absl::StatusOr<ShardPaths> FindShards(absl::string_view path,
                                      absl::string_view suffix,
                                      const FolderRules& rules = {});

// The folders KEY=VALUE between the folder `base` and the file `path`, in their
// order.
std::vector<std::string> PartitionsOf(absl::string_view base,
                                      absl::string_view path);

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
