// WriteNewFile writes a file at a path where nothing may be yet: for folders
// that a user names and that may hold the user's own files.
//
// What it is not: it replaces nothing, unlike common/atomic_file.h, and it does
// not follow a symbolic link at the end of the path. A reader may see a part of
// the file.
//
// Thread-safe.
//
//   MR_RETURN_IF_ERROR(WriteNewFile("batch/image.npy", {header, elements}));

#ifndef MILLRACE_COMMON_NEW_FILE_H_
#define MILLRACE_COMMON_NEW_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace millrace {

// Creates the file `path` and writes `parts` one after another. AlreadyExists:
// a file, a link (also to nothing), a FIFO or a folder has the name, and stays.
// After any other error, as FileError() makes them, the file is removed.
absl::Status WriteNewFile(const std::string& path,
                          absl::Span<const absl::string_view> parts);

}  // namespace millrace

#endif  // MILLRACE_COMMON_NEW_FILE_H_
