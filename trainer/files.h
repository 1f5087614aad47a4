// What a run asks of the files and folders that its flags name.

#ifndef MILLRACE_TRAINER_FILES_H_
#define MILLRACE_TRAINER_FILES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Says now what would fail at the end of a long run: that `path` cannot be
// written. Leaves nothing behind, and removes what a process that was killed
// has left beside it. InvalidArgument: `path` is a folder.
absl::Status CheckWritable(const std::string& path);

// Files by the flags that name them; empty: not given.
using NamedFiles = std::vector<std::pair<absl::string_view, std::string>>;

// InvalidArgument: two of the flags name one file, of which only the last one
// written would stay.
absl::Status CheckDistinct(const NamedFiles& files);

// InvalidArgument: `path` is a folder. Others as FileError (file_error.h).
absl::Status CheckReadable(const std::string& path);

// Makes the folder `path` and those above it where they are missing.
absl::Status MakeFolders(const std::string& path);

}  // namespace millrace

#endif  // MILLRACE_TRAINER_FILES_H_
