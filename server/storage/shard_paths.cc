#include "server/storage/shard_paths.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/file_error.h"
#include "common/folder.h"
#include "common/regular_file.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/brace_list.h"
#include "server/storage/sorted_glob.h"

namespace millrace::storage {
namespace {

// Depth of sub-folders in which shards are searched, in order to refuse them:
// enough for year=/month=/day=.
constexpr int kNestedLevels = 4;

struct Entry {
  std::string name;
  bool folder = false;
  bool link = false;
};

// The entries in bytewise order of their names.
absl::StatusOr<std::vector<Entry>> ListFolder(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()),
                                                   closedir);
  if (folder == nullptr) return FileError(errno, "read folder", path);
  std::vector<Entry> entries;
  errno = 0;
  while (const dirent* entry = readdir(folder.get())) {
    struct stat info;
    // Some file systems do not return the type of an entry.
    const bool asked = entry->d_type == DT_UNKNOWN &&
                       fstatat(dirfd(folder.get()), entry->d_name, &info,
                               AT_SYMLINK_NOFOLLOW) == 0;
    entries.push_back(
        {.name = entry->d_name,
         .folder = asked ? S_ISDIR(info.st_mode) : entry->d_type == DT_DIR,
         .link = asked ? S_ISLNK(info.st_mode) : entry->d_type == DT_LNK});
    errno = 0;
  }
  if (errno != 0) return FileError(errno, "read folder", path);
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

bool IsHidden(absl::string_view name) { return absl::StartsWith(name, "."); }

bool HasGlob(absl::string_view path) {
  return path.find_first_of("*?[") != path.npos;
}

// Other spellings of the suffix match, too.
bool IsNamedLikeShard(absl::string_view name, absl::string_view suffix) {
  const std::string lower = absl::AsciiStrToLower(name);
  if (absl::EndsWith(lower, suffix)) return true;
  return suffix == ".parquet" &&
         (absl::EndsWith(lower, ".parq") || absl::EndsWith(lower, ".pq"));
}

// The first file below `path` with the name of a shard; empty: there is none,
// or `path` is no readable folder. Follows no link below `path`.
std::string FirstShardBelow(const std::string& path, absl::string_view suffix,
                            int levels) {
  const absl::StatusOr<std::vector<Entry>> entries = ListFolder(path);
  if (!entries.ok()) return "";
  for (const Entry& entry : *entries) {
    if (!IsHidden(entry.name) && IsNamedLikeShard(entry.name, suffix)) {
      return JoinPath(path, entry.name);
    }
  }
  for (const Entry& entry : *entries) {
    if (levels <= 1 || !entry.folder || IsHidden(entry.name)) continue;
    std::string found =
        FirstShardBelow(JoinPath(path, entry.name), suffix, levels - 1);
    if (!found.empty()) return found;
  }
  return "";
}

// Error for a sub-folder with shards, which would be missing from the dataset.
absl::Status CheckNested(const std::string& nested, absl::string_view suffix) {
  const std::string shard = FirstShardBelow(nested, suffix, kNestedLevels);
  if (shard.empty()) return absl::OkStatus();
  const std::string folder = FolderOf(nested);
  return absl::InvalidArgumentError(absl::StrCat(
      shard, " is in a folder below ", folder,
      ", and Millrace does not read folders below a dataset's folder: open ",
      FolderOf(shard), " by itself, or name the shards by a glob (",
      JoinPath(folder, "*"), suffix, " excludes it, ",
      JoinPath(FolderOf(shard), "*"), suffix, " selects its folder)"));
}

// Adds a path with the name of a shard, or a path that matches a glob.
absl::Status AddShard(const std::string& path,
                      std::vector<std::string>* files) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    const int error = errno;
    if (error != ENOENT && error != ELOOP) {
      return FileError(error, "open", path);
    }
    // The entry was removed after the folder was listed.
    if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        path, error == ELOOP
                  ? " is a link that leads back to itself, or the last of too "
                    "many links: remove it"
                  : " is a link to a file that does not exist: restore the "
                    "file or remove the link"));
  }
  if (S_ISREG(info.st_mode)) {
    files->push_back(path);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      S_ISDIR(info.st_mode) ? " is a folder, not a shard: open it by itself"
                            : " is not a regular file but a FIFO, a socket or "
                              "a device: remove it",
      ", move it to another place, or name the shards by a glob that excludes "
      "it"));
}

// Error for a folder with shards of another format. OK: there are none.
absl::Status CheckOtherFormat(const std::string& path,
                              const std::vector<Entry>& entries,
                              absl::string_view suffix) {
  for (absl::string_view other : {"lmdb", "parquet", "arrow", "tar"}) {
    const std::string other_suffix = absl::StrCat(".", other);
    if (other_suffix == suffix) continue;
    for (const Entry& entry : entries) {
      if (entry.folder || IsHidden(entry.name) ||
          !absl::EndsWith(entry.name, other_suffix)) {
        continue;
      }
      return UsageError(absl::InvalidArgumentError(
          absl::StrCat("there is no *", suffix, " file in folder ", path,
                       ", but ", entry.name, ": write ", other, ":", path)));
    }
  }
  return absl::OkStatus();
}

// The command that decompresses a shard of this name; empty: it is none.
std::string HowToDecompress(absl::string_view name, absl::string_view suffix) {
  constexpr struct {
    absl::string_view ending;
    absl::string_view command;
  } kEndings[] = {{".gz", "gzip -d"},
                  {".zst", "zstd -d"},
                  {".bz2", "bzip2 -d"},
                  {".xz", "xz -d"}};
  for (const auto& [ending, command] : kEndings) {
    if (absl::EndsWith(name, absl::StrCat(suffix, ending))) {
      return std::string(command);
    }
  }
  return suffix == ".tar" && absl::EndsWith(name, ".tgz") ? "gzip -d" : "";
}

// The reason why a folder has no shards, or what to name instead.
std::string WhatFolderHolds(const std::vector<Entry>& entries,
                            absl::string_view suffix) {
  for (const Entry& entry : entries) {
    const std::string& name = entry.name;
    if (const std::string command = HowToDecompress(name, suffix);
        !command.empty()) {
      return absl::StrCat(name,
                          " is compressed: decompress it and the other "
                          "shards (`",
                          command, " ", name, "`)");
    }
    if (name == "data.mdb" && suffix != ".lmdb") {
      return "it is an LMDB environment: write lmdb:PATH";
    }
    if (absl::StartsWith(name, ".") && absl::EndsWith(name, ".tmp")) {
      return "it contains only files that an interrupted `millrace-data pack` "
             "left; pack again";
    }
  }
  return "name a shard file, a folder of shards or a glob";
}

// Depth of folders KEY=VALUE.
constexpr int kMaxPartitions = 16;

bool IsPartition(absl::string_view name) {
  const size_t equals = name.find('=');
  return equals != name.npos && equals > 0;
}

bool BeginsWith(const std::string& path, absl::string_view start) {
  const absl::StatusOr<std::string> got =
      ReadRegularFileStart(path, start.size());
  return got.ok() && *got == start;
}

// Adds the shards in a folder, in bytewise order of the paths. `any_name`:
// those that begin with rules.start.
absl::Status AddFolder(const std::string& path, absl::string_view suffix,
                       const FolderRules& rules, bool any_name,
                       const std::vector<Entry>& entries, int levels,
                       std::vector<std::string>* files) {
  for (const Entry& entry : entries) {
    if (IsHidden(entry.name)) continue;
    const std::string file = JoinPath(path, entry.name);
    const bool table = !rules.start.empty();
    if (table && absl::StartsWith(entry.name, "_")) continue;
    if (absl::EndsWith(entry.name, suffix)) {
      MR_RETURN_IF_ERROR(AddShard(file, files));
    } else if (rules.partitions && IsPartition(entry.name) && IsFolder(file)) {
      if (levels == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(file, " is in more than ", kMaxPartitions,
                         " folders KEY=VALUE: it may be a loop of links"));
      }
      MR_ASSIGN_OR_RETURN(const std::vector<Entry> inside, ListFolder(file));
      MR_RETURN_IF_ERROR(
          AddFolder(file, suffix, rules, any_name, inside, levels - 1, files));
    } else if (IsNamedLikeShard(entry.name, suffix)) {
      if (table && !entry.folder) {
        MR_RETURN_IF_ERROR(AddShard(file, files));
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          file, " has the name of a shard, but shards in a folder end in ",
          suffix, ": rename it, or name the shards by a glob (",
          JoinPath(path, "*"), suffix, " excludes it)"));
    } else if (entry.folder || (entry.link && IsFolder(file))) {
      MR_RETURN_IF_ERROR(CheckNested(file, suffix));
    } else if (any_name && BeginsWith(file, rules.start)) {
      MR_RETURN_IF_ERROR(AddShard(file, files));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ShardPaths> FindInFolder(const std::string& path,
                                        absl::string_view suffix,
                                        const FolderRules& rules) {
  MR_ASSIGN_OR_RETURN(const std::vector<Entry> entries, ListFolder(path));
  ShardPaths found = {.base = path};
  const auto add = [&](bool any_name) {
    return AddFolder(path, suffix, rules, any_name, entries, kMaxPartitions,
                     &found.files);
  };
  MR_RETURN_IF_ERROR(add(/*any_name=*/false));
  if (found.files.empty() && !rules.start.empty()) {
    MR_RETURN_IF_ERROR(add(/*any_name=*/true));
  }
  if (found.files.empty()) {
    MR_RETURN_IF_ERROR(CheckOtherFormat(path, entries, suffix));
    return absl::InvalidArgumentError(
        absl::StrCat("there is no *", suffix, " file in folder ", path, ": ",
                     WhatFolderHolds(entries, suffix)));
  }
  return found;
}

// The folder before the first character that stands for others; empty: there is
// none.
std::string FixedFolder(const std::string& pattern) {
  const std::string fixed = pattern.substr(0, pattern.find_first_of("*?[{"));
  const size_t slash = fixed.rfind('/');
  return slash == fixed.npos ? "" : fixed.substr(0, slash);
}

absl::StatusOr<ShardPaths> FindByGlob(const std::string& pattern,
                                      absl::string_view suffix) {
  ShardPaths found = {.base = FixedFolder(pattern)};
  for (const std::string& path : SortedGlob(pattern)) {
    // DIR/* also matches folders that do not belong to the dataset.
    if (!IsNamedLikeShard(path, suffix) && IsFolder(path)) {
      MR_RETURN_IF_ERROR(CheckNested(path, suffix));
    } else {
      MR_RETURN_IF_ERROR(AddShard(path, &found.files));
    }
  }
  if (found.files.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no file matches ", pattern, "; check the pattern"));
  }
  return found;
}

// Every file of braces must be there, once, in their order.
absl::StatusOr<ShardPaths> FindByBraces(const std::string& pattern,
                                        absl::string_view suffix) {
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                      UsageError(ExpandBraces(pattern)));
  ShardPaths found = {.by_braces = true, .base = FixedFolder(pattern)};
  for (const std::string& path : paths) {
    if (HasGlob(path)) {
      MR_ASSIGN_OR_RETURN(ShardPaths some, FindByGlob(path, suffix));
      found.files.insert(found.files.end(), some.files.begin(),
                         some.files.end());
      continue;
    }
    const size_t before = found.files.size();
    MR_RETURN_IF_ERROR(AddShard(path, &found.files));
    if (found.files.size() == before) {
      return absl::NotFoundError(absl::StrCat("there is no file ", path, " of ",
                                              pattern, "; check the braces"));
    }
  }
  std::set<absl::string_view> seen;
  for (const std::string& file : found.files) {
    if (seen.insert(file).second) continue;
    return UsageError(absl::InvalidArgumentError(
        absl::StrCat(pattern, " names ", file,
                     " twice; write the braces so "
                     "that each file is named once")));
  }
  return found;
}

}  // namespace

absl::StatusOr<ShardPaths> FindShards(absl::string_view path_view,
                                      absl::string_view suffix,
                                      const FolderRules& rules) {
  const std::string path(path_view);
  if (path.empty()) {
    return UsageError(absl::InvalidArgumentError(
        "the path is empty; write lmdb:PATH or parquet:PATH"));
  }
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT && HasBraces(path)) return FindByBraces(path, suffix);
    if (errno == ENOENT && HasGlob(path)) return FindByGlob(path, suffix);
    if (errno == ENOENT) {
      const bool packed = suffix == ".lmdb" || suffix == ".parquet";
      return absl::NotFoundError(absl::StrCat(
          "there is no file or folder ", path, "; check the path",
          packed ? ", or write the dataset with `millrace-data pack`" : ""));
    }
    return FileError(errno, "open", path);
  }
  if (S_ISDIR(info.st_mode)) return FindInFolder(path, suffix, rules);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is neither a file nor a folder"));
  }
  return ShardPaths{.files = {path}, .one_file = true, .base = FolderOf(path)};
}

std::vector<std::string> PartitionsOf(absl::string_view base,
                                      absl::string_view path) {
  std::vector<std::string> found;
  if (!absl::ConsumePrefix(&path, base)) return found;
  std::vector<absl::string_view> names = absl::StrSplit(path, '/');
  names.pop_back();
  for (const absl::string_view name : names) {
    if (IsPartition(name)) found.emplace_back(name);
  }
  return found;
}

std::string ShardName(int index, int count, absl::string_view suffix) {
  return absl::StrFormat("part-%05d-of-%05d%s", index, count, suffix);
}

bool ParseNumberedName(absl::string_view name, absl::string_view suffix,
                       NumberedName* parsed) {
  // The suffix "-00002-of-00004".
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
          absl::StrCat(file, " has a number beyond the end of its set"));
    }
    seen[name.index] = true;
  }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing != seen.end()) {
    return absl::DataLossError(
        absl::StrFormat("%s-%05d-of-%05d%s is missing from %s: the set is "
                        "incomplete; copy all of its shards there",
                        first.prefix, missing - seen.begin(), first.count,
                        suffix, FolderOf(first_file)));
  }
  return absl::OkStatus();
}

}  // namespace millrace::storage
