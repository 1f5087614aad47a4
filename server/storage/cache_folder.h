// The folder that keeps the indexes of datasets from one start to the next.
//
// Thread-safe; processes may share a cache folder.
//
//   MR_ASSIGN_OR_RETURN(std::string folder, MakeCacheFolder(cache_dir));

#ifndef MILLRACE_SERVER_STORAGE_CACHE_FOLDER_H_
#define MILLRACE_SERVER_STORAGE_CACHE_FOLDER_H_

#include <string>

#include "absl/status/statusor.h"

namespace millrace::storage {

// The folder that OpenSourceOptions::cache_dir means; empty: none.
std::string CacheFolder(const std::string& cache_dir);

// Makes the cache folder if it is missing, and checks that it can be written.
// FailedPrecondition: there is none.
absl::StatusOr<std::string> MakeCacheFolder(const std::string& cache_dir);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_CACHE_FOLDER_H_
