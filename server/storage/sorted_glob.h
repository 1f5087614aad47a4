// The paths that match a glob (*, ?, [...]), in bytewise order, whatever the
// locale is.
//
// Pure function of the file system, safe from any thread.
//
//   SortedGlob("/data/t-*.tar")  ->  {"/data/t-0.tar", "/data/t-1.tar"}

#ifndef MILLRACE_SERVER_STORAGE_SORTED_GLOB_H_
#define MILLRACE_SERVER_STORAGE_SORTED_GLOB_H_

#include <string>
#include <vector>

namespace millrace::storage {

// Empty: nothing matches, or a folder cannot be read.
std::vector<std::string> SortedGlob(const std::string& pattern);

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_SORTED_GLOB_H_
