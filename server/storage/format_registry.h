// The list of storage formats: which there are, and the format of a URI or of a
// file. A new format is a folder beside this file and a line in
// format_registry.cc. Image folders (server/storage/imagefolder/) and records
// in files (server/storage/extents/) are no ShardFormat.
//
// What it is not: it opens no file (open.h, dataset_writer.h).
//
// Pure functions, safe from any thread.
//
//   MR_ASSIGN_OR_RETURN(DatasetUri uri, ParseDatasetUri("lmdb:/srv/a.lmdb"));
//   MR_ASSIGN_OR_RETURN(const ShardFormat* format, FindFormat(uri.scheme));

#ifndef MILLRACE_SERVER_STORAGE_FORMAT_REGISTRY_H_
#define MILLRACE_SERVER_STORAGE_FORMAT_REGISTRY_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/storage/shard_format.h"

namespace millrace::storage {

inline constexpr absl::string_view kImageFolderScheme = "imagefolder";

// The format of that scheme. InvalidArgument: there is none; lists them.
// Unimplemented: this program was built without it.
absl::StatusOr<const ShardFormat*> FindFormat(absl::string_view scheme);

// The scheme of the format whose files begin so, also when this program was
// built without it; empty: of none.
inline constexpr size_t kFormatStartBytes = 264;
absl::string_view SchemeOfStart(absl::string_view start);

// Splits "lmdb:PATH". InvalidArgument: no scheme; shows how to write it.
struct DatasetUri {
  std::string scheme;
  std::string path;
};
absl::StatusOr<DatasetUri> ParseDatasetUri(absl::string_view uri);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_FORMAT_REGISTRY_H_
