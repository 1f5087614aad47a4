#include "server/storage/hdf5/hdf5_paths.h"

#include <utility>

#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "server/storage/one_suffix.h"
#include "server/storage/shard_paths.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kSuffixes[] = {".h5", ".hdf5"};

}  // namespace

absl::StatusOr<std::vector<std::string>> FindHdf5Files(
    const std::string& path) {
  MR_ASSIGN_OR_RETURN(ShardPaths found, FindShardsOfOneSuffix(path, kSuffixes));
  for (const absl::string_view suffix : kSuffixes) {
    MR_RETURN_IF_ERROR(CheckNumberedNames(found.files, suffix));
  }
  return std::move(found.files);
}

}  // namespace millrace::storage
