// Errors of the file system as sentences: what was tried, on which file, why
// it failed, and what to do.

#ifndef MILLRACE_COMMON_FILE_ERROR_H_
#define MILLRACE_COMMON_FILE_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace millrace {

// "cannot ACTION PATH: No space left on device; make room or ...". Where an
// action that begins with write, create or make misses a folder, the advice is
// to create the folder. NotFound, PermissionDenied, AlreadyExists and so on by
// `error` (an errno); ResourceExhausted when there is no room.
absl::Status FileError(int error, absl::string_view action,
                       absl::string_view path);

// The errno of a failed write: a library that reports one that was cut short
// as EIO (LMDB does) has met a full disk when there is no room left.
int WriteErrno(int error, absl::string_view path);

// The last part of a path: "part-00000-of-00004.lmdb".
std::string FileName(absl::string_view path);

// The folder that holds `path`: "." for a bare name.
std::string FolderOf(absl::string_view path);

// Makes the bytes of a file, or the names in a folder, survive a power cut.
absl::Status SyncToDisk(const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_COMMON_FILE_ERROR_H_
