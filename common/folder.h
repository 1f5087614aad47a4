// Folders by their paths.
//
// Thread-safe.
//
//   if (IsFolder(path)) found.push_back(JoinPath(path, "a.lmdb"));

#ifndef MILLRACE_COMMON_FOLDER_H_
#define MILLRACE_COMMON_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// A folder or a link to one. False also when nothing is there, or when the
// system does not say.
bool IsFolder(const std::string& path);

// Creates the folder `path`. False: the folder exists already. AlreadyExists:
// a file or a link to nothing has this path. Others as FileError() makes them.
absl::StatusOr<bool> MakeFolder(const std::string& path);

// Creates the folder `path` and its missing parents. Errors as MakeFolder().
absl::Status MakeFolders(const std::string& path);

// The path of `name` in a folder whose path may end in a slash.
std::string JoinPath(absl::string_view folder, absl::string_view name);

// The names in a folder, in the order of the directory, without "." and "..".
// Errors as FileError() makes them.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& folder);

}  // namespace millrace

#endif  // MILLRACE_COMMON_FOLDER_H_
