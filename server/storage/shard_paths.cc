#include "server/storage/shard_paths.h"

#include <dirent.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "server/storage/file_error.h"

namespace millrace {
namespace {

bool IsRegularFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

absl::StatusOr<std::vector<std::string>> ListFolder(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()),
                                                   closedir);
  if (folder == nullptr) return FileError(errno, "read folder", path);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(folder.get())) {
    names.emplace_back(entry->d_name);
    errno = 0;
  }
  if (errno != 0) return FileError(errno, "read folder", path);
  std::sort(names.begin(), names.end());
  return names;
}

// What somebody who named this folder most likely meant.
std::string WhatFolderHolds(const std::vector<std::string>& names,
                            absl::string_view suffix) {
  for (const std::string& name : names) {
    if (name == "data.mdb") {
      return "it is an LMDB environment that `millrace-data pack` did not "
             "write: its layout is not known; pack the original data";
    }
    if (absl::StartsWith(name, ".") && absl::EndsWith(name, ".tmp")) {
      return "it holds only what an interrupted packing left; pack again";
    }
    for (absl::string_view other : {"lmdb", "parquet"}) {
      if (absl::StrCat(".", other) != suffix &&
          absl::EndsWith(name, absl::StrCat(".", other))) {
        return absl::StrCat("it holds ", name, ": did you mean ", other,
                            ":PATH?");
      }
    }
  }
  return "name a shard file, a folder of shards or a glob";
}

absl::StatusOr<ShardPaths> FindInFolder(const std::string& path,
                                        absl::string_view suffix) {
  MR_ASSIGN_OR_RETURN(std::vector<std::string> names, ListFolder(path));
  ShardPaths found;
  for (const std::string& name : names) {
    if (absl::StartsWith(name, ".") || !absl::EndsWith(name, suffix)) continue;
    const std::string file =
        absl::StrCat(path, absl::EndsWith(path, "/") ? "" : "/", name);
    if (IsRegularFile(file)) found.files.push_back(file);
  }
  if (found.files.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no *", suffix, " file in folder ", path, ": ",
                     WhatFolderHolds(names, suffix)));
  }
  return found;
}

absl::StatusOr<ShardPaths> FindByGlob(const std::string& pattern) {
  glob_t matches{};
  const int rc = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  ShardPaths found;
  for (size_t i = 0; rc == 0 && i < matches.gl_pathc; ++i) {
    if (IsRegularFile(matches.gl_pathv[i])) {
      found.files.emplace_back(matches.gl_pathv[i]);
    }
  }
  globfree(&matches);
  if (found.files.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no file matches ", pattern, "; check the pattern"));
  }
  std::sort(found.files.begin(), found.files.end());
  return found;
}

}  // namespace

absl::StatusOr<ShardPaths> FindShards(absl::string_view path_view,
                                      absl::string_view suffix) {
  const std::string path(path_view);
  if (path.empty()) {
    return absl::InvalidArgumentError(
        "the path is empty; write lmdb:PATH or parquet:PATH");
  }
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT && path.find_first_of("*?[") != path.npos) {
      return FindByGlob(path);
    }
    if (errno == ENOENT) {
      return absl::NotFoundError(absl::StrCat(
          "there is no file or folder ", path,
          "; check the path, or write the dataset with `millrace-data pack`"));
    }
    return FileError(errno, "open", path);
  }
  if (S_ISDIR(info.st_mode)) return FindInFolder(path, suffix);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is neither a file nor a folder"));
  }
  return ShardPaths{.files = {path}, .one_file = true};
}

std::string ShardName(int index, int count, absl::string_view suffix) {
  return absl::StrFormat("part-%05d-of-%05d%s", index, count, suffix);
}

bool ParseNumberedName(absl::string_view name, absl::string_view suffix,
                       NumberedName* parsed) {
  // -00002-of-00004
  constexpr size_t kTail = 15;
  if (!absl::EndsWith(name, suffix)) return false;
  name.remove_suffix(suffix.size());
  if (name.size() < kTail) return false;
  const absl::string_view tail = name.substr(name.size() - kTail);
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-") return false;
  for (size_t i : {1, 2, 3, 4, 5, 10, 11, 12, 13, 14}) {
    if (tail[i] < '0' || tail[i] > '9') return false;
  }
  parsed->prefix = std::string(name.substr(0, name.size() - kTail));
  return absl::SimpleAtoi(tail.substr(1, 5), &parsed->index) &&
         absl::SimpleAtoi(tail.substr(10, 5), &parsed->count);
}

absl::Status CheckNumberedNames(const std::vector<std::string>& files,
                                absl::string_view suffix) {
  NumberedName first;
  std::string first_file;
  std::vector<bool> seen;
  for (const std::string& file : files) {
    NumberedName name;
    if (!ParseNumberedName(FileName(file), suffix, &name)) continue;
    if (first_file.empty()) {
      first = name;
      first_file = file;
      seen.resize(name.count);
    }
    if (name.prefix != first.prefix || name.count != first.count) {
      return absl::DataLossError(
          absl::StrCat(FileName(file), " and ", FileName(first_file),
                       " belong to different sets of shards; name one set by a "
                       "glob such as ",
                       FolderOf(file), "/", name.prefix, "-*", suffix));
    }
    if (name.index >= name.count) {
      return absl::DataLossError(
          absl::StrCat(file, " is numbered past the end of its set"));
    }
    seen[name.index] = true;
  }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing != seen.end()) {
    return absl::DataLossError(absl::StrFormat(
        "%s-%05d-of-%05d%s is missing from %s: the set is not whole; copy all "
        "of its shards there",
        first.prefix, missing - seen.begin(), first.count, suffix,
        FolderOf(first_file)));
  }
  return absl::OkStatus();
}

}  // namespace millrace
