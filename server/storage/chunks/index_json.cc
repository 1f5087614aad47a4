#include "server/storage/chunks/index_json.h"

#include <google/protobuf/util/json_util.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/clean_text.h"
#include "common/file_error.h"
#include "common/first_of.h"
#include "common/folder.h"
#include "common/read_file.h"
#include "common/status_macros.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kIndexName = "index.json";
// Some hundred bytes a chunk file.
constexpr uint64_t kMaxIndexBytes = 256 << 20;
constexpr double kMaxWholeNumber = 9007199254740992.0;  // 2^53
constexpr size_t kMaxReasonBytes = 200;

// Folders in `folder` that have an index.json of their own.
std::vector<std::string> IndexedFolders(const std::string& folder) {
  std::vector<std::string> found;
  const auto names = NamesIn(folder);
  if (!names.ok()) return found;
  for (const std::string& name : *names) {
    struct stat info;
    const std::string index = JoinPath(JoinPath(folder, name), kIndexName);
    if (stat(index.c_str(), &info) == 0) found.push_back(name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool LeadsOut(const std::string& name) {
  if (name.empty() || name.front() == '/' ||
      name.find('\0') != std::string::npos) {
    return true;
  }
  for (const absl::string_view part : absl::StrSplit(name, '/')) {
    if (part == "..") return true;
  }
  return false;
}

bool IsCount(const google::protobuf::Value& value) {
  const double number = value.number_value();
  return value.kind_case() == google::protobuf::Value::kNumberValue &&
         number >= 0 && number <= kMaxWholeNumber &&
         number == std::floor(number);
}

}  // namespace

absl::StatusOr<google::protobuf::Value> ParseJson(absl::string_view text,
                                                  absl::string_view where) {
  google::protobuf::Value value;
  const auto status =
      google::protobuf::util::JsonStringToMessage(std::string(text), &value);
  if (status.ok()) return value;
  // The reason, without the lines that show the place.
  const std::string message(status.message().data(), status.message().size());
  const absl::string_view reason =
      absl::string_view(message).substr(0, message.find('\n'));
  return absl::DataLossError(
      absl::StrCat(where, " is no JSON: ", CleanText(reason, kMaxReasonBytes)));
}

absl::StatusOr<JsonMembers> JsonMembers::Of(
    const google::protobuf::Value& value, std::string where) {
  if (value.kind_case() != google::protobuf::Value::kStructValue) {
    return absl::DataLossError(absl::StrCat(where, " is no JSON object"));
  }
  return JsonMembers(&value.struct_value(), std::move(where));
}

std::string JsonMembers::WhereOf(absl::string_view key) const {
  return absl::StrCat(where_, absl::EndsWith(where_, kIndexName) ? ": " : ".",
                      key);
}

absl::Status JsonMembers::Wrong(absl::string_view key,
                                absl::string_view what) const {
  return absl::DataLossError(absl::StrCat(WhereOf(key), " ", what));
}

const google::protobuf::Value* JsonMembers::Find(absl::string_view key) const {
  const auto found = object_->fields().find(std::string(key));
  if (found == object_->fields().end() ||
      found->second.kind_case() == google::protobuf::Value::kNullValue) {
    return nullptr;
  }
  return &found->second;
}

absl::StatusOr<std::string> JsonMembers::Text(absl::string_view key) const {
  const google::protobuf::Value* value = Find(key);
  if (value == nullptr) return Wrong(key, "is missing");
  if (value->kind_case() != google::protobuf::Value::kStringValue) {
    return Wrong(key, "is no text");
  }
  return value->string_value();
}

absl::StatusOr<uint64_t> JsonMembers::Count(absl::string_view key) const {
  const google::protobuf::Value* value = Find(key);
  if (value == nullptr) return Wrong(key, "is missing");
  if (!IsCount(*value)) return Wrong(key, "is no whole number");
  return static_cast<uint64_t>(value->number_value());
}

absl::StatusOr<const google::protobuf::ListValue*> JsonMembers::List(
    absl::string_view key) const {
  const google::protobuf::Value* value = Find(key);
  if (value == nullptr) return Wrong(key, "is missing");
  if (value->kind_case() != google::protobuf::Value::kListValue) {
    return Wrong(key, "is no list");
  }
  return &value->list_value();
}

absl::StatusOr<std::vector<const google::protobuf::Value*>> JsonMembers::Values(
    absl::string_view key) const {
  MR_ASSIGN_OR_RETURN(const auto* list, List(key));
  std::vector<const google::protobuf::Value*> values;
  for (const auto& value : list->values()) values.push_back(&value);
  return values;
}

absl::StatusOr<std::vector<std::string>> JsonMembers::Texts(
    absl::string_view key) const {
  MR_ASSIGN_OR_RETURN(const auto* list, List(key));
  std::vector<std::string> texts;
  for (const auto& value : list->values()) {
    if (value.kind_case() != google::protobuf::Value::kStringValue) {
      return Wrong(key, "is no list of texts");
    }
    texts.push_back(value.string_value());
  }
  return texts;
}

absl::StatusOr<std::vector<uint64_t>> JsonMembers::CountsOrNull(
    absl::string_view key) const {
  MR_ASSIGN_OR_RETURN(const auto* list, List(key));
  std::vector<uint64_t> counts;
  for (const auto& value : list->values()) {
    const bool null = value.kind_case() == google::protobuf::Value::kNullValue;
    if (!null && !IsCount(value)) {
      return Wrong(key, "is no list of whole numbers and null");
    }
    counts.push_back(null ? 0 : static_cast<uint64_t>(value.number_value()));
  }
  return counts;
}

absl::StatusOr<JsonMembers> JsonMembers::Object(absl::string_view key) const {
  const google::protobuf::Value* value = Find(key);
  if (value == nullptr) return Wrong(key, "is missing");
  return Of(*value, WhereOf(key));
}

absl::StatusOr<std::vector<JsonMembers>> JsonMembers::Objects(
    absl::string_view key) const {
  MR_ASSIGN_OR_RETURN(const auto* list, List(key));
  std::vector<JsonMembers> objects;
  objects.reserve(list->values_size());
  for (int i = 0; i < list->values_size(); ++i) {
    MR_ASSIGN_OR_RETURN(
        JsonMembers object,
        Of(list->values(i), absl::StrCat(WhereOf(key), "[", i, "]")));
    objects.push_back(std::move(object));
  }
  return objects;
}

std::string IndexJson::folder() const { return FolderOf(path_); }

absl::StatusOr<JsonMembers> IndexJson::Members() const {
  return JsonMembers::Of(document_, path_);
}

absl::StatusOr<IndexJson> ReadIndexJson(const std::string& path) {
  const bool folder = IsFolder(path);
  const std::string file = folder ? JoinPath(path, kIndexName) : path;
  if (!folder && FileName(path) != kIndexName) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " is no folder and is not named ", kIndexName,
        ": name the folder that contains ", kIndexName, " and its files"));
  }
  auto text = ReadFile(file, kMaxIndexBytes);
  if (absl::IsNotFound(text.status())) {
    const std::vector<std::string> folders = IndexedFolders(path);
    std::string hint;
    if (!folders.empty()) {
      hint = absl::StrCat(
          ". Folders below it have one; name one of them: ",
          FirstOf(folders, ", ", static_cast<int64_t>(folders.size())));
    }
    return absl::NotFoundError(absl::StrCat("there is no ", file, hint));
  }
  MR_RETURN_IF_ERROR(text.status());
  MR_ASSIGN_OR_RETURN(auto document, ParseJson(*text, file));
  return IndexJson(file, std::move(document));
}

absl::StatusOr<std::string> FindChunk(const std::string& folder,
                                      const std::string& name,
                                      absl::Span<const uint64_t> sizes,
                                      const std::string& where) {
  if (LeadsOut(name)) {
    return absl::DataLossError(
        absl::StrCat(where, " '", CleanText(name, kMaxReasonBytes),
                     "' is no name of a file in the folder of the index"));
  }
  std::string path = JoinPath(folder, name);
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    const absl::Status error = FileError(errno, "look at", path);
    return absl::IsNotFound(error) ? absl::DataLossError(absl::StrCat(
                                         "the file ", path, " of ", where,
                                         " is missing: copy the whole folder"))
                                   : error;
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::DataLossError(absl::StrCat(
        path, " of ", where,
        " is not a regular file but a folder, a FIFO, a socket or a device: "
        "copy the file again"));
  }
  if (!sizes.empty() &&
      !absl::c_linear_search(sizes, static_cast<uint64_t>(info.st_size))) {
    return absl::DataLossError(absl::StrCat(
        path, " has ", info.st_size, " bytes, and by ", where, " it has ",
        sizes.front(), ": the file was cut off or replaced"));
  }
  return path;
}

}  // namespace millrace::storage
