#include "server/storage/foreign_lmdb/environment_paths.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/folder.h"
#include "server/storage/brace_list.h"

namespace millrace::storage {
namespace {

constexpr absl::string_view kDataFile = "data.mdb";

bool IsRegularFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// Adds the environment at `path`; false: there is none.
bool Add(const std::string& path, std::vector<std::string>* files) {
  if (!IsFolder(path)) {
    if (!IsRegularFile(path)) return false;
    files->push_back(path);
    return true;
  }
  const std::string data = JoinPath(path, kDataFile);
  if (!IsRegularFile(data)) return false;
  files->push_back(data);
  return true;
}

void AddFolder(const std::string& folder, std::vector<std::string>* files) {
  if (Add(folder, files)) return;
  absl::StatusOr<std::vector<std::string>> names = NamesIn(folder);
  if (!names.ok()) return;
  std::sort(names->begin(), names->end());
  for (const std::string& name : *names) {
    if (absl::StartsWith(name, ".")) continue;
    const std::string path = JoinPath(folder, name);
    if (IsFolder(path) || absl::EndsWith(name, ".lmdb") ||
        absl::EndsWith(name, ".mdb")) {
      Add(path, files);
    }
  }
}

void AddGlob(const std::string& pattern, std::vector<std::string>* files) {
  glob_t matches{};
  const int rc = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  std::vector<std::string> paths;
  for (size_t i = 0; rc == 0 && i < matches.gl_pathc; ++i) {
    paths.emplace_back(matches.gl_pathv[i]);
  }
  globfree(&matches);
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    // DIR/* also matches the lock of an environment.
    if (!absl::EndsWith(path, "/lock.mdb")) Add(path, files);
  }
}

}  // namespace

std::vector<std::string> FindEnvironments(const std::string& path) {
  std::vector<std::string> files;
  struct stat info;
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) {
      AddFolder(path, &files);
    } else {
      Add(path, &files);
    }
    return files;
  }
  if (!HasBraces(path)) {
    AddGlob(path, &files);
    return files;
  }
  const absl::StatusOr<std::vector<std::string>> words = ExpandBraces(path);
  if (!words.ok()) return files;
  for (const std::string& word : *words) {
    // A missing environment of a range would be missing from the dataset.
    const size_t before = files.size();
    AddGlob(word, &files);
    if (files.size() == before) return {};
  }
  return files;
}

bool IsInEnvironmentFolder(const std::string& file) {
  return file == kDataFile || absl::EndsWith(file, "/data.mdb");
}

}  // namespace millrace::storage
