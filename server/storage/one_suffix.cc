#include "server/storage/one_suffix.h"

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/folder.h"
#include "common/status_macros.h"

namespace millrace::storage {

absl::StatusOr<ShardPaths> FindShardsOfOneSuffix(
    const std::string& path, absl::Span<const absl::string_view> suffixes) {
  if (!IsFolder(path)) return FindShards(path, suffixes.front());
  MR_ASSIGN_OR_RETURN(std::vector<std::string> names, NamesIn(path));
  std::sort(names.begin(), names.end());
  absl::string_view found;
  std::string first;
  for (const absl::string_view suffix : suffixes) {
    // FindShards() refuses a suffix in capitals.
    const auto name =
        std::find_if(names.begin(), names.end(), [&](const std::string& text) {
          return text[0] != '.' && absl::EndsWithIgnoreCase(text, suffix);
        });
    if (name == names.end()) continue;
    if (found.empty()) {
      found = suffix;
      first = *name;
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        path, " holds *", found, " and *", suffix, " files (", first, ", ",
        *name, "): name those of the dataset by a glob, such as ",
        JoinPath(path, "*"), " for all files or ", JoinPath(path, "*"), found,
        " for one kind, or serve each kind as a dataset of its own"));
  }
  return FindShards(path, found.empty() ? suffixes.front() : found);
}

}  // namespace millrace::storage
