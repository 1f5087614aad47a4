// Joins the shards of a packed dataset: whatever the format, each shard says
// what it holds (ShardMetadata), and together they must be one whole set.
//
// Pure functions.

#ifndef MILLRACE_SERVER_STORAGE_SHARD_SET_H_
#define MILLRACE_SERVER_STORAGE_SHARD_SET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/dataset.pb.h"
#include "proto/names.h"

namespace millrace::storage {

// Version of docs/formats.md that is written; older ones are read.
inline constexpr uint32_t kStorageFormatVersion = 1;

struct PackedShard {
  std::string path;
  int64_t bytes = 0;  // of the file
  ShardMetadata metadata;
};

// The name of a shard's file in DatasetInfo: readable UTF-8, which a file's
// name need not be.
std::string ShardInfoName(const std::string& path);

// Checks one shard's metadata by itself. DataLoss: damaged. Unimplemented: of
// a newer version. Names the file.
absl::Status CheckShardMetadata(const std::string& path,
                                const ShardMetadata& metadata);

// Sorts `shards` by their place and describes the dataset. DataLoss: shards
// are missing, of two packings, twice there, or do not fit together; names the
// file and what to do.
absl::StatusOr<DatasetInfo> JoinShards(absl::string_view format,
                                       absl::string_view suffix,
                                       std::vector<PackedShard>& shards);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_SHARD_SET_H_
