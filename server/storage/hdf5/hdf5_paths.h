// The files of hdf5:PATH: PATH is a file, a folder of *.h5 or of *.hdf5 (not
// of both), a glob, or ranges in braces.
//
//   MR_ASSIGN_OR_RETURN(auto files, FindHdf5Files("/data/train-*.h5"));

#ifndef MILLRACE_SERVER_STORAGE_HDF5_HDF5_PATHS_H_
#define MILLRACE_SERVER_STORAGE_HDF5_HDF5_PATHS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace millrace::storage {

// In the order of the samples. Errors of FindShardsOfOneSuffix() and
// CheckNumberedNames().
absl::StatusOr<std::vector<std::string>> FindHdf5Files(const std::string& path);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_HDF5_HDF5_PATHS_H_
