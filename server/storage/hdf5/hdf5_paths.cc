#include "server/storage/hdf5/hdf5_paths.h"

#include <utility>

#include "common/folder.h"
#include "common/status_macros.h"
#include "server/storage/shard_paths.h"

namespace millrace::storage {

absl::StatusOr<std::vector<std::string>> FindHdf5Files(
    const std::string& path) {
  auto found = FindShards(path, ".h5");
  if (!found.ok() && IsFolder(path)) {
    auto other = FindShards(path, ".hdf5");
    if (other.ok()) found = std::move(other);
  }
  MR_RETURN_IF_ERROR(found.status());
  for (const char* const suffix : {".h5", ".hdf5"}) {
    MR_RETURN_IF_ERROR(CheckNumberedNames(found->files, suffix));
  }
  return found->files;
}

}  // namespace millrace::storage
