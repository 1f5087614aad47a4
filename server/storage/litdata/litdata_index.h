// The index.json of a LitData folder: its chunks in order, and the leaves of
// their samples.
//
// It looks at the names and sizes of chunks and opens none.
//
// Pure functions of the file system, safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(ObjectList chunks, ListLitdataChunks("/data/train"));

#ifndef MILLRACE_SERVER_STORAGE_LITDATA_LITDATA_INDEX_H_
#define MILLRACE_SERVER_STORAGE_LITDATA_LITDATA_INDEX_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/storage/chunks/index_json.h"
#include "server/storage/extents/extent_format.h"

namespace millrace::storage {

struct LitdataLeaf {
  std::string name;
  bool unnamed = false;  // as TreeLeaf::unnamed
  std::string format;    // "jpeg"
};

// Of the description of an ObjectList. DataLoss: it is none.
absl::StatusOr<std::vector<LitdataLeaf>> ParseLitdataLeaves(
    absl::string_view description);

// The chunks of a folder with an index.json, or of that file. NotFound: there
// are none. DataLoss: index.json is damaged, a chunk is missing or has another
// size. Unimplemented: the chunks are encrypted, compressed by another codec
// than zstd, or of a kind that has no samples of their own; says what to do.
absl::StatusOr<ObjectList> ListLitdataChunks(const std::string& path);

// The same for an index.json at hand.
absl::StatusOr<ObjectList> ListLitdataChunks(const IndexJson& index);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_LITDATA_LITDATA_INDEX_H_
