// Upper bound of the files that are read as they are and that a process has
// open at the same time, of all datasets (objects/open_files.h).
//
// Pure functions, safe from any thread.

#ifndef MILLRACE_SERVER_STORAGE_MAX_OPEN_FILES_H_
#define MILLRACE_SERVER_STORAGE_MAX_OPEN_FILES_H_

#include <sys/resource.h>

#include <algorithm>

namespace millrace::storage {

// For any limit of open files: fewer would make readers wait for each other,
// and more do not make reads faster.
inline constexpr int kMaxOpenFiles = 512;
inline constexpr int kMinOpenFiles = 16;

// A sixteenth of the limit of open files: half of the descriptors that a server
// reserves for files of datasets. The other half is for mapped indexes.
inline int MaxOpenFiles() {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMinOpenFiles;
  return static_cast<int>(
      std::clamp<rlim_t>(limit.rlim_cur / 16, kMinOpenFiles, kMaxOpenFiles));
}

}  // namespace millrace::storage

#endif  // MILLRACE_SERVER_STORAGE_MAX_OPEN_FILES_H_
