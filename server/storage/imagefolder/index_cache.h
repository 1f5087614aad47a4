// The index of an image folder in the cache folder, so that a folder of
// millions of files is listed once: finds the index, checks that it is whole
// and that no folder has changed since, and lists the folder when it is not.
//
// It does not look at the files of a folder: a file that was changed in place
// is found when it is read (folder_source.h), and the index is then dropped.
//
// Thread-safe; processes may share a cache folder.
//
//   MR_ASSIGN_OR_RETURN(FolderIndex index,
//                       FindFolderIndex("/data/train", options, {}, &room));

#ifndef MILLRACE_SERVER_STORAGE_IMAGEFOLDER_INDEX_CACHE_H_
#define MILLRACE_SERVER_STORAGE_IMAGEFOLDER_INDEX_CACHE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/byte_budget.h"
#include "server/storage/imagefolder/folder_index.h"
#include "server/storage/open_options.h"

namespace millrace::storage {

// Absolute path without links. NotFound, ...: no such folder. InvalidArgument:
// it is a file.
absl::StatusOr<std::string> RealFolder(const std::string& path);

enum class IndexUse {
  kCached,  // an index that is whole and not outdated is used
  kFresh,   // the folder is listed, and the caller saves the index
};

// The index of `folder`, a RealFolder(). Reserves its memory in
// options.metadata_budget. Without kFresh a new index is written to the cache
// folder; when that is not possible, the log says why. Logs what was left out,
// and whether and why the folder was listed.
//
// Errors of ScanImageFolder(). DataLoss: there are files with an image's name
// that are none; names the first. InvalidArgument: a class without an image.
// ResourceExhausted, a usage error: the list does not fit into the budget.
absl::StatusOr<FolderIndex> FindFolderIndex(const std::string& folder,
                                            const OpenSourceOptions& options,
                                            IndexUse use,
                                            ByteBudget::Reservation* room);

// Writes the index to the cache folder; the path of the file. Errors as
// MakeCacheFolder().
absl::StatusOr<std::string> SaveFolderIndex(const FolderIndex& index,
                                            const std::string& cache_dir);

// Path of the index of `folder`; empty: there is none.
std::string FolderIndexFile(const std::string& folder,
                            const std::string& cache_dir);

// Removes the index of `folder`, if there is one, so that the folder is listed
// when it is opened the next time. When that is not possible, the log says why.
void DropFolderIndex(const std::string& folder, const std::string& cache_dir);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_IMAGEFOLDER_INDEX_CACHE_H_
