#include "server/storage/arrow/arrow_paths.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/file_error.h"
#include "common/folder.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "common/usage_error.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kSuffixes[] = {".arrow", ".feather", ".ipc"};

// Max bytes of state.json and dataset_dict.json that are read.
constexpr size_t kMaxJsonBytes = 4 << 20;

bool Exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

absl::StatusOr<google::protobuf::Struct> ReadJson(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const std::string text,
                      ReadRegularFileStart(path, kMaxJsonBytes));
  google::protobuf::Struct document;
  if (!google::protobuf::util::JsonStringToMessage(text, &document).ok()) {
    return absl::DataLossError(absl::StrCat(
        path, " is not JSON: copy it again, or save the dataset again"));
  }
  return document;
}

// Texts in the list `name`: `member` of each element, or the element itself
// where `member` is empty.
std::vector<std::string> Texts(const google::protobuf::Struct& document,
                               const std::string& name,
                               const std::string& member) {
  std::vector<std::string> texts;
  const auto list = document.fields().find(name);
  if (list == document.fields().end()) return texts;
  for (const auto& element : list->second.list_value().values()) {
    if (member.empty()) {
      texts.push_back(element.string_value());
      continue;
    }
    const auto& fields = element.struct_value().fields();
    const auto found = fields.find(member);
    texts.push_back(found == fields.end() ? "" : found->second.string_value());
  }
  return texts;
}

// A folder of one split each, as DatasetDict.save_to_disk() writes it.
absl::Status RefuseSplits(const std::string& path,
                          const std::string& dict_path) {
  MR_ASSIGN_OR_RETURN(const google::protobuf::Struct document,
                      ReadJson(dict_path));
  const std::vector<std::string> splits = Texts(document, "splits", "");
  return UsageError(absl::InvalidArgumentError(absl::StrCat(
      path, " holds the splits ", absl::StrJoin(splits, ", "),
      " of a dataset (dataset_dict.json): name one of them",
      splits.empty()
          ? ""
          : absl::StrCat(", arrow:", JoinPath(path, splits.front())))));
}

// The files that a folder of save_to_disk() lists, in their order. The folder
// may have others: caches of later map() calls.
absl::StatusOr<ShardPaths> FindSaved(const std::string& path,
                                     const std::string& state_path) {
  MR_ASSIGN_OR_RETURN(const google::protobuf::Struct state,
                      ReadJson(state_path));
  if (!Texts(state, "_indices_data_files", "filename").empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " has an indices mapping, as old releases of datasets wrote it: "
        "save the dataset again (load_from_disk, flatten_indices, "
        "save_to_disk)"));
  }
  ShardPaths found;
  for (const std::string& name : Texts(state, "_data_files", "filename")) {
    if (name.empty() || name.find('/') != name.npos || name == "..") {
      return absl::DataLossError(
          absl::StrCat(state_path,
                       " names a file outside of its folder: save the dataset "
                       "again"));
    }
    found.files.push_back(JoinPath(path, name));
    if (!Exists(found.files.back())) {
      return absl::NotFoundError(absl::StrCat(
          "there is no file ", found.files.back(), ", which ", state_path,
          " names: copy the whole folder again, or save the dataset again"));
    }
  }
  if (found.files.empty()) {
    return absl::DataLossError(
        absl::StrCat(state_path, " names no file: save the dataset again"));
  }
  return found;
}

}  // namespace

absl::StatusOr<ShardPaths> FindArrowFiles(absl::string_view path_view) {
  const std::string path(path_view);
  if (!IsFolder(path)) return FindShards(path, kSuffixes[0]);
  const std::string dict = JoinPath(path, "dataset_dict.json");
  if (Exists(dict)) return RefuseSplits(path, dict);
  const std::string state = JoinPath(path, "state.json");
  if (Exists(state)) return FindSaved(path, state);
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(path));
  std::vector<absl::string_view> found;
  for (const absl::string_view suffix : kSuffixes) {
    if (std::any_of(names.begin(), names.end(), [&](const std::string& name) {
          return name[0] != '.' && absl::EndsWith(name, suffix);
        })) {
      found.push_back(suffix);
    }
  }
  if (found.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds *", absl::StrJoin(found, " and *"),
                     " files: name those of the dataset by a glob, such as ",
                     JoinPath(path, "*"), found.front()));
  }
  return FindShards(path, found.empty() ? kSuffixes[0] : found.front());
}

std::string FindDatasetInfo(const ShardPaths& shards) {
  const std::string folder = FolderOf(shards.files.front());
  for (const std::string& file : shards.files) {
    if (FolderOf(file) != folder) return "";
  }
  const std::string info = JoinPath(folder, "dataset_info.json");
  return Exists(info) ? info : "";
}

}  // namespace millrace::storage
