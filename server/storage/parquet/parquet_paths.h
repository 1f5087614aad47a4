// Finds the files of a parquet: dataset, and the values in the names of their
// folders (year=2024/part.parquet), which are fields.
//
// Reads folders and the first bytes of files. Pure otherwise.
//
//   MR_ASSIGN_OR_RETURN(ShardPaths found, FindParquetFiles("/data/sales"));
//   MR_ASSIGN_OR_RETURN(Partitions values, ReadPartitions(found, {}));

#ifndef MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_PATHS_H_
#define MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_PATHS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"
#include "server/storage/shard_paths.h"

namespace millrace::storage {

// Errors as FindShards(). In a folder, folders KEY=VALUE are part of the
// dataset, and where no file has the suffix, files of any name that are Parquet
// files.
absl::StatusOr<ShardPaths> FindParquetFiles(absl::string_view path);

struct Partitions {
  std::vector<Field> fields;  // int64 scalars, one for each key
  // By file, in the order of the paths, then by field.
  std::vector<std::vector<int64_t>> values;
};

// The fields that the folders below `shards.base` give. Values that are all
// whole numbers are numbers; others are classes in bytewise order of their
// names. Keys that are in `columns` (the columns of the files) give no field:
// the files have the values themselves. InvalidArgument: the files have
// different keys, or a value is missing; names a file.
absl::StatusOr<Partitions> ReadPartitions(const ShardPaths& shards,
                                          const std::set<std::string>& columns);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_PARQUET_PARQUET_PATHS_H_
