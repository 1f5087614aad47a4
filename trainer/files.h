// Checks of the files and folders that a run's flags name.

#ifndef MILLRACE_TRAINER_FILES_H_
#define MILLRACE_TRAINER_FILES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace::trainer {

// Reports at the start that `path` cannot be written, instead of at the end of
// a long run. Leaves nothing behind, and removes the temporary files of a
// killed process beside it. InvalidArgument: `path` is a folder.
absl::Status CheckWritable(const std::string& path);

// Files by the flags that name them; empty: not given.
using NamedFiles = std::vector<std::pair<absl::string_view, std::string>>;

// InvalidArgument: two of the flags name one file, of which only the last one
// written would stay.
absl::Status CheckDistinct(const NamedFiles& files);

// A folder that a flag names, for files that the program names itself.
struct NamedFolder {
  absl::string_view flag;
  std::string path;  // empty: not given
  // Begin and end of those names; both empty: no name is known.
  absl::string_view prefix;
  absl::string_view suffix;
};

// InvalidArgument: one of the files is also one of the folders or a folder
// above it, or has the name of a file that the program writes into the folder.
absl::Status CheckApart(const NamedFiles& files,
                        const std::vector<NamedFolder>& folders);

// InvalidArgument: `path` is a folder. Others as FileError (file_error.h).
absl::Status CheckReadable(const std::string& path);

// Reports at the start that no files can be created in the folder `path` of
// `flag`, which need not exist: MakeFolders() creates it later. Creates
// nothing, so that a run that is refused leaves nothing behind.
// InvalidArgument: `path` or a part of it is a file or a link to nothing.
// Others as FileError (file_error.h): the folder, or the one that it would be
// created in, cannot be written.
absl::Status CheckFolder(absl::string_view flag, const std::string& path);

}  // namespace millrace::trainer

#endif  // MILLRACE_TRAINER_FILES_H_
