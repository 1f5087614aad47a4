#include "server/storage/dataset_files.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/count_text.h"
#include "common/file_error.h"
#include "common/first_of.h"
#include "common/status_macros.h"
#include "server/storage/arrow/arrow_paths.h"
#include "server/storage/extents/extent_formats.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/foreign_lmdb/environment_paths.h"
#include "server/storage/hdf5/hdf5_paths.h"
#include "server/storage/imagefolder/split_name.h"
#include "server/storage/parquet/parquet_paths.h"
#include "server/storage/shard_paths.h"

namespace millrace::storage {
namespace {

// Returns "train" for train-00000-of-00002.parquet.
absl::string_view FirstWord(absl::string_view name) {
  return name.substr(0, name.find_first_of("-_."));
}

// The part of a dataset according to the path; "": the path names none.
std::string PartOf(absl::string_view path) {
  std::vector<absl::string_view> names = absl::StrSplit(path, '/');
  names.back() = FirstWord(names.back());
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    // For example split=train.
    const absl::string_view value = name->substr(name->rfind('=') + 1);
    if (std::string part = PartOfName(value); !part.empty()) return part;
  }
  return "";
}

// Returns "year=2024/month=1": the folders of the form KEY=VALUE in the path.
std::string PartitionOf(absl::string_view path) {
  std::vector<absl::string_view> names = absl::StrSplit(path, '/');
  names.pop_back();
  names.erase(std::remove_if(names.begin(), names.end(),
                             [](absl::string_view name) {
                               const size_t equals = name.find('=');
                               return equals == name.npos || equals == 0;
                             }),
              names.end());
  return absl::StrJoin(names, "/");
}

// LMDB environments in folders, or with options behind their path; none: they
// are not, or the options are wrong.
std::vector<std::string> ForeignEnvironments(absl::string_view rest) {
  const absl::StatusOr<ExtentUri> uri = ExtentUri::Parse("lmdb", rest);
  if (!uri.ok()) return {};
  return FindEnvironments(uri->path).value_or(std::vector<std::string>());
}

}  // namespace

std::string DatasetFiles::Sentence() const {
  if (files.empty()) return "";
  return absl::StrCat(
      CountText(files.size(), "file"), " in ",
      folders.size() == 1
          ? ""
          : absl::StrCat(CountText(folders.size(), "folder"), ": "),
      FirstOf(folders, ", ", static_cast<int64_t>(folders.size())));
}

std::vector<std::string> DatasetFiles::Warnings() const {
  std::vector<std::string> warnings;
  std::map<std::string, std::string> parts;  // and one file of each
  std::set<std::string> partitions;
  for (const std::string& file : files) {
    parts.emplace(PartOf(file), file);
    partitions.insert(PartitionOf(
        fields_below.has_value() ? absl::StrCat(*fields_below, "/") : file));
  }
  parts.erase("");
  partitions.erase("");
  if (parts.size() > 1) {
    warnings.push_back(absl::StrCat(
        "the names of its files are those of parts of a dataset (",
        absl::StrJoin(parts, ", ",
                      [](std::string* out, const auto& part) {
                        out->append(part.first);
                      }),
        "), such as ",
        absl::StrJoin(parts, " and ",
                      [](std::string* out, const auto& part) {
                        out->append(part.second);
                      }),
        ", but all files are read as one dataset: name the files of one part"));
  }
  // A single partition has columns without their values, too.
  if (!partitions.empty()) {
    warnings.push_back(
        absl::StrCat("the values in the names of its folders (",
                     FirstOf({partitions.begin(), partitions.end()}, ", ",
                             static_cast<int64_t>(partitions.size())),
                     ") are not fields of the dataset: only the columns in the "
                     "files are read"));
  }
  return warnings;
}

DatasetFiles DescribeFiles(absl::Span<const std::string> paths) {
  DatasetFiles found;
  found.files.assign(paths.begin(), paths.end());
  std::set<std::string> folders;
  for (const std::string& path : paths) folders.insert(FolderOf(path));
  found.folders.assign(folders.begin(), folders.end());
  return found;
}

absl::StatusOr<DatasetFiles> FindDatasetFiles(absl::string_view uri) {
  absl::string_view path = uri;
  if (absl::ConsumePrefix(&path, "arrow:")) {
    MR_ASSIGN_OR_RETURN(const ShardPaths shards, FindArrowFiles(path));
    return DescribeFiles(shards.files);
  }
  if (absl::ConsumePrefix(&path, "parquet:")) {
    MR_ASSIGN_OR_RETURN(const ShardPaths shards, FindParquetFiles(path));
    DatasetFiles files = DescribeFiles(shards.files);
    files.fields_below = shards.base;
    return files;
  }
  if (absl::ConsumePrefix(&path, "lmdb:")) {
    const absl::StatusOr<ShardPaths> shards = FindShards(path, ".lmdb");
    if (shards.ok()) return DescribeFiles(shards->files);
    const std::vector<std::string> environments = ForeignEnvironments(path);
    if (environments.empty()) return shards.status();
    return DescribeFiles(environments);
  }
  const size_t colon = uri.find(':');
  if (colon == uri.npos) return DatasetFiles();
  if (uri.substr(0, colon) == "hdf5") {
    MR_ASSIGN_OR_RETURN(const ExtentUri parsed,
                        ExtentUri::Parse("hdf5", uri.substr(colon + 1)));
    MR_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                        FindHdf5Files(parsed.path));
    return DescribeFiles(paths);
  }
  const ExtentFormat* const format = FindExtentFormat(uri.substr(0, colon));
  if (format == nullptr) return DatasetFiles();
  MR_ASSIGN_OR_RETURN(const ExtentUri parsed,
                      ExtentUri::Parse(format->scheme(), uri.substr(colon + 1),
                                       format->names_files()));
  MR_ASSIGN_OR_RETURN(const ObjectList list,
                      format->List(parsed.path, parsed.options));
  return DescribeFiles(list.names);
}

}  // namespace millrace::storage
