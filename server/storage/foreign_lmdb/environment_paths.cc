#include "server/storage/foreign_lmdb/environment_paths.h"

#include <sys/stat.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/folder.h"
#include "common/status_macros.h"
#include "server/storage/brace_list.h"
#include "server/storage/sorted_glob.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kDataFile = "data.mdb";

// What is at a path that is to be an environment.
enum class Kind { kNothing, kFile, kOther };

Kind KindOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    return S_ISREG(info.st_mode) ? Kind::kFile : Kind::kOther;
  }
  return lstat(path.c_str(), &info) == 0 ? Kind::kOther : Kind::kNothing;
}

// Adds the environment at `path`, if there is one.
absl::Status Add(const std::string& path, std::vector<std::string>* files) {
  const bool folder = IsFolder(path);
  const std::string file = folder ? JoinPath(path, kDataFile) : path;
  switch (KindOf(file)) {
    case Kind::kNothing:
      return absl::OkStatus();
    case Kind::kFile:
      files->push_back(file);
      return absl::OkStatus();
    case Kind::kOther:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      file,
      " has the name of an LMDB environment and is not a regular file but a "
      "link that leads nowhere, a folder, a FIFO, a socket or a device: "
      "restore the file, or remove it"));
}

absl::Status AddFolder(const std::string& folder,
                       std::vector<std::string>* files) {
  MR_RETURN_IF_ERROR(Add(folder, files));
  if (!files->empty()) return absl::OkStatus();
  absl::StatusOr<std::vector<std::string>> names = NamesIn(folder);
  if (!names.ok()) return absl::OkStatus();
  std::sort(names->begin(), names->end());
  for (const std::string& name : *names) {
    if (absl::StartsWith(name, ".")) continue;
    const std::string path = JoinPath(folder, name);
    if (IsFolder(path) || absl::EndsWith(name, ".lmdb") ||
        absl::EndsWith(name, ".mdb")) {
      MR_RETURN_IF_ERROR(Add(path, files));
    }
  }
  return absl::OkStatus();
}

absl::Status AddGlob(const std::string& pattern,
                     std::vector<std::string>* files) {
  for (const std::string& path : SortedGlob(pattern)) {
    // DIR/* also matches the lock of an environment.
    if (absl::EndsWith(path, "/lock.mdb")) continue;
    MR_RETURN_IF_ERROR(Add(path, files));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FindEnvironments(
    const std::string& path) {
  std::vector<std::string> files;
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) {
      MR_RETURN_IF_ERROR(AddFolder(path, &files));
    } else if (S_ISREG(info.st_mode)) {
      files.push_back(path);
    }
    return files;
  }
  if (!HasBraces(path)) {
    MR_RETURN_IF_ERROR(AddGlob(path, &files));
    return files;
  }
  const absl::StatusOr<std::vector<std::string>> words = ExpandBraces(path);
  if (!words.ok()) return files;
  for (const std::string& word : *words) {
    // A missing environment of a range would be missing from the dataset.
    const size_t before = files.size();
    MR_RETURN_IF_ERROR(AddGlob(word, &files));
    if (files.size() == before) return std::vector<std::string>();
  }
  return files;
}

bool IsInEnvironmentFolder(const std::string& file) {
  return file == kDataFile || absl::EndsWith(file, "/data.mdb");
}

}  // namespace millrace::storage
