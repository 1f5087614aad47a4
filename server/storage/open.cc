#include "server/storage/open.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/folder.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/operators/operators.h"
#include "server/storage/extents/extent_formats.h"
#include "server/storage/extents/extent_source.h"
#include "server/storage/foreign_lmdb/foreign_source.h"
#include "server/storage/format_registry.h"
#include "server/storage/hdf5/hdf5_source.h"
#include "server/storage/imagefolder/folder_source.h"
#include "server/storage/operator/operator_source.h"
#include "server/storage/shard_format.h"
#include "server/storage/shard_paths.h"

namespace millrace::storage {
namespace {

constexpr int kMaxTries = 3;

// Distinguishes a folder from another one of the same name; zeros: there is no
// folder.
using FileNumber = std::pair<dev_t, ino_t>;

FileNumber NumberOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino};
}

// The scheme of the file by its first bytes; empty: unknown.
absl::string_view SchemeOfFile(const std::string& path) {
  std::string start(kFormatStartBytes, 0);
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  return SchemeOfStart(
      absl::string_view(start).substr(0, static_cast<size_t>(file.gcount())));
}

// Returns `failed`, or an error that names the right scheme if a file of the
// dataset has another format. A new copy of the file would not help then.
absl::Status WithRightScheme(const DatasetUri& uri, const ShardFormat& format,
                             absl::Status failed) {
  const auto shards = format.Find(uri.path);
  if (!shards.ok()) return failed;
  const auto other = [&format](const std::string& file) {
    const absl::string_view scheme = SchemeOfFile(file);
    return scheme == format.scheme() ? "" : scheme;
  };
  for (const std::string& file : shards->files) {
    const absl::string_view scheme = other(file);
    if (scheme.empty()) continue;
    const bool all = std::all_of(
        shards->files.begin(), shards->files.end(),
        [&](const std::string& each) { return other(each) == scheme; });
    // The shards of a folder are found by their names.
    const bool folder = IsFolder(uri.path);
    return UsageError(absl::InvalidArgumentError(absl::StrCat(
        file, " is a file of format ", scheme, ", not ", format.scheme(), ": ",
        all || folder
            ? absl::StrCat("write ", scheme, ":", folder ? file : uri.path)
            : "exclude it from the pattern")));
  }
  return failed;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> OpenRecordSource(
    absl::string_view uri, const OpenSourceOptions& options) {
  // The URI comes from a flag or a configuration, so it may be wrong.
  MR_ASSIGN_OR_RETURN(const DatasetUri parsed,
                      UsageError(ParseDatasetUri(uri)));
  if (options.operators != nullptr) {
    const operators::Operators::Source* const source =
        options.operators->FindSource(parsed.scheme);
    if (source != nullptr) return OpenOperatorSource(*source, parsed.path);
  }
  if (parsed.scheme == kImageFolderScheme) {
    return OpenFolderSource(parsed.path, options);
  }
  if (parsed.scheme == kHdf5Scheme) {
    return OpenHdf5(parsed.path, options, Hdf5Use::kAtRandom);
  }
  if (const ExtentFormat* const format = FindExtentFormat(parsed.scheme)) {
    return OpenExtentSource(*format, parsed.path, options);
  }
  MR_ASSIGN_OR_RETURN(const ShardFormat* format,
                      UsageError(FindFormat(parsed.scheme)));
  const auto open = [&]() -> absl::StatusOr<std::unique_ptr<RecordSource>> {
    if (parsed.scheme == "lmdb") {
      MR_ASSIGN_OR_RETURN(std::unique_ptr<RecordSource> foreign,
                          OpenForeignLmdb(parsed.path, options));
      if (foreign != nullptr) return foreign;
    }
    MR_ASSIGN_OR_RETURN(const ShardPaths shards, format->Find(parsed.path));
    return format->Open(shards, options);
  };
  // `pack --overwrite` exchanges the folder for another one. A process that has
  // listed the old folder then finds its files missing, or finds the new files.
  for (int tries = 1;; ++tries) {
    const FileNumber before = NumberOf(parsed.path);
    auto source = open();
    if (source.ok()) return source;
    if (tries == kMaxTries || NumberOf(parsed.path) == before) {
      return WithRightScheme(parsed, *format, source.status());
    }
  }
}

}  // namespace millrace::storage
