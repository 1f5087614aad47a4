// Finds the LMDB environments of a PATH: a file, a folder with data.mdb as
// LMDB's library writes it, a folder of such folders or of files *.lmdb and
// *.mdb, a glob, or ranges and lists in braces.
//
// Looks only at names, never into files.
//
//   FindEnvironments("/data/train_lmdb")  ->  {"/data/train_lmdb/data.mdb"}

#ifndef MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_ENVIRONMENT_PATHS_H_
#define MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_ENVIRONMENT_PATHS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace::storage {

// The files in bytewise order of their paths; empty: nothing is there, or it
// cannot be listed. InvalidArgument: something with the name of an environment
// is no regular file; it would be missing from the dataset.
absl::StatusOr<std::vector<std::string>> FindEnvironments(
    const std::string& path);

// Whether the file is one of a folder that LMDB's library made: data.mdb.
bool IsInEnvironmentFolder(const std::string& file);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_FOREIGN_LMDB_ENVIRONMENT_PATHS_H_
