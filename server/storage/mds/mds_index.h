// The index.json of an MDS folder: its shards in order, and their columns.
//
// It looks at the names and sizes of shards and opens none.
//
// Pure functions of the file system, safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(ObjectList shards, ListMdsShards("/data/mds"));

#ifndef MILLRACE_SERVER_STORAGE_MDS_MDS_INDEX_H_
#define MILLRACE_SERVER_STORAGE_MDS_MDS_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/storage/chunks/index_json.h"
#include "server/storage/extents/extent_format.h"

namespace millrace::storage {

// The columns of every shard of a dataset.
struct MdsColumns {
  std::vector<std::string> names;
  std::vector<std::string> encodings;
  std::vector<uint64_t> sizes;  // 0: varies
  friend bool operator==(const MdsColumns&, const MdsColumns&) = default;
};

// Of `json`, an object with column_names, column_encodings and column_sizes:
// the description of an ObjectList, or the config of a shard. DataLoss: it is
// none; `where` names it.
absl::StatusOr<MdsColumns> ParseMdsColumns(absl::string_view json,
                                           const std::string& where);

// The shards of a folder with an index.json, or of that file. NotFound: there
// are none. DataLoss: index.json is damaged, a shard is missing or has another
// size. Unimplemented: a shard is no MDS file, or is compressed in a way that
// is not known; says what to do. A compressed shard whose raw file is in the
// folder, too, is read as that.
absl::StatusOr<ObjectList> ListMdsShards(const std::string& path);

// The same for an index.json at hand.
absl::StatusOr<ObjectList> ListMdsShards(const IndexJson& index);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_MDS_MDS_INDEX_H_
