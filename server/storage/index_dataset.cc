#include "server/storage/index_dataset.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "server/storage/cache_folder.h"
#include "server/storage/content_record.h"
#include "server/storage/content_scan.h"
#include "server/storage/extents/extent_cache.h"
#include "server/storage/extents/extent_formats.h"
#include "server/storage/extents/extent_source.h"
#include "server/storage/extents/extent_uri.h"
#include "server/storage/foreign_lmdb/index_foreign.h"
#include "server/storage/format_registry.h"
#include "server/storage/imagefolder/content_index.h"
#include "server/storage/schemes.h"
#include "server/storage/unpack/unpacked_objects.h"

namespace millrace::storage {
namespace {

absl::StatusOr<IndexedDataset> IndexExtents(const ExtentFormat& format,
                                            const std::string& rest,
                                            const OpenSourceOptions& options,
                                            const IndexDatasetOptions& index) {
  MR_ASSIGN_OR_RETURN(const ExtentUri uri,
                      UsageError(ExtentUri::Parse(format.scheme(), rest,
                                                  format.names_files())));
  UnpackedObjects objects(options.cache_dir);
  IndexedDataset done;
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<const ExtentIndex> made,
                      MakeExtentIndex(format, uri, objects, options.cache_dir,
                                      {.threads = index.threads,
                                       .content = !index.headers_only,
                                       .progress = index.progress},
                                      &done.file));
  done.content_kept = index.headers_only && !made->head().content_sum().empty();
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<FieldRule> rule,
                      format.RestoreRule(made->head().rule()));
  MR_ASSIGN_OR_RETURN(done.info,
                      DescribeExtents(*made, uri, rule->class_field()));
  return done;
}

absl::StatusOr<ContentKey> KeyOf(const std::string& scheme,
                                 const std::vector<std::string>& files,
                                 const DatasetInfo& info) {
  const std::optional<ContentKey> key = MakeContentKey(scheme, files, info);
  if (key.has_value()) return *key;
  return absl::UnavailableError(
      "a file of the dataset has disappeared while it was read: try again");
}

// Of files that need no list of samples: reads the content and keeps its hash.
absl::StatusOr<IndexedDataset> IndexContent(const ShardFormat& format,
                                            const DatasetUri& uri,
                                            const OpenSourceOptions& options,
                                            const IndexDatasetOptions& index) {
  MR_RETURN_IF_ERROR(MakeCacheFolder(options.cache_dir).status());
  MR_ASSIGN_OR_RETURN(const ShardPaths shards, format.Find(uri.path));
  MR_ASSIGN_OR_RETURN(const std::unique_ptr<RecordSource> source,
                      format.Open(shards, options));
  IndexedDataset done;
  done.info = source->info();
  MR_ASSIGN_OR_RETURN(const ContentKey before,
                      KeyOf(uri.scheme, shards.files, done.info));
  MR_ASSIGN_OR_RETURN(const std::vector<Hash128> sums,
                      ScanContent(*source, index.threads, index.progress));
  MR_ASSIGN_OR_RETURN(const ContentKey after,
                      KeyOf(uri.scheme, shards.files, done.info));
  if (before.identity != after.identity) {
    return absl::UnavailableError(absl::StrCat(
        uri.scheme, ":", uri.path,
        " has changed while it was read: index it again when nothing writes "
        "into it"));
  }
  MR_ASSIGN_OR_RETURN(done.file,
                      WriteContentRecord(before, sums, options.cache_dir));
  SetContentSums(sums, &done.info);
  return done;
}

}  // namespace

absl::StatusOr<IndexedDataset> IndexDataset(absl::string_view uri,
                                            const OpenSourceOptions& options,
                                            const IndexDatasetOptions& index) {
  MR_ASSIGN_OR_RETURN(const DatasetUri parsed,
                      UsageError(ParseDatasetUri(uri)));
  if (const ExtentFormat* const format = FindExtentFormat(parsed.scheme)) {
    return IndexExtents(*format, parsed.path, options, index);
  }
  if (parsed.scheme == "lmdb") {
    MR_ASSIGN_OR_RETURN(
        auto foreign,
        IndexForeignLmdb(parsed.path, options, index.threads, index.progress));
    if (foreign.has_value()) {
      if (index.headers_only) {
        return UsageError(absl::InvalidArgumentError(
            "--headers_only is for records in files (tar:PATH); the server "
            "visits the keys of an LMDB environment by itself: leave the flag "
            "out"));
      }
      return IndexedDataset{.info = std::move(foreign->info),
                            .file = std::move(foreign->file)};
    }
  }
  if (parsed.scheme != kImageFolderScheme) {
    const auto format = FindFormat(parsed.scheme);
    if (format.ok() && (*format)->keeps_content()) {
      if (index.headers_only) {
        return UsageError(absl::InvalidArgumentError(absl::StrCat(
            "--headers_only is for records in files (tar:PATH), not for ",
            parsed.scheme,
            ": files, whose samples need no list: leave the flag out")));
      }
      return IndexContent(**format, parsed, options, index);
    }
    if (!HasScheme(uri)) {
      MR_RETURN_IF_ERROR(UsageError(format.status()));
    }
    return UsageError(absl::InvalidArgumentError(
        absl::StrCat(parsed.scheme,
                     ": needs no index: the server opens the files without "
                     "one")));
  }
  if (index.headers_only) {
    return UsageError(absl::InvalidArgumentError(
        "--headers_only is for records in files (tar:PATH); the server lists "
        "an image folder by itself: leave the flag out"));
  }
  MR_ASSIGN_OR_RETURN(
      IndexedFolder folder,
      IndexImageFolder(parsed.path, options, index.threads, index.progress));
  return IndexedDataset{.info = std::move(folder.info),
                        .file = std::move(folder.file),
                        .bad_count = folder.bad_count,
                        .bad = std::move(folder.bad)};
}

}  // namespace millrace::storage
